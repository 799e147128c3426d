"""The bounds of what is stored; every one is checked before anything is sent (SPEC, table of defaults)."""

from __future__ import annotations

PAYLOAD_BYTES = 256 * 1024
RESULT_BYTES = 1024 * 1024
CHECKPOINT_BYTES = 256 * 1024
ERROR_BYTES = 8 * 1024
META_BYTES = 8 * 1024
PROGRESS_TEXT = 500
JSON_DEPTH = 100

NAME_CHARS = 128  # of tasks and queues
KEY_CHARS = 512  # of job_id, unique_key, concurrency_key, tenant
CODE_CHARS = 64
TAGS = 20
TAG_CHARS = 100

INTEGER_DIGITS = 4300  # what Python itself reads back (sys.int_info.default_max_str_digits)
NOTE_CHARS = 64 * 1024  # of a text that is looked at at all before it is redacted and cut

UNPAID_PAUSES = 100
SHORT_PAUSE_S = 5.0
LEAST_PAUSE_S = 1.0  # a provider that says "0" is not asked again in a tight loop
LEAST_BACKOFF_S = 0.001
LONGEST_S = 10 * 365 * 86_400.0
LONGEST_BACKOFF_S = 365 * 86_400.0
PRIORITY = 32_000
ATTEMPTS = 32_000
