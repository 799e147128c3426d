"""What is known of an error: a stable code, a class, and a storable text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fencepost.domain.limits import CODE_CHARS

RESERVED = frozenset({
    "CRASHED", "CRASH_LOOP", "DEADLINE", "EXHAUSTED", "EXPIRED", "MAX_DURATION", "NO_PROGRESS", "PAYLOAD_INVALID", "STALE",
    "TIMEOUT", "UNKNOWN_TASK", "UNKNOWN_VERSION", "UNSTORABLE",
})  # fmt: skip
"""Codes that fencepost itself gives (SPEC R1): nobody else may give them, or counts and rules would mean two things."""

LIMIT_CODES = frozenset({"DEADLINE", "MAX_DURATION", "NO_PROGRESS", "TIMEOUT"})
"""A run was stopped from outside: whether its effect happened is not known."""

FINAL_CODES = frozenset({"CRASH_LOOP", "DEADLINE", "EXHAUSTED", "EXPIRED", "PAYLOAD_INVALID", "STALE", "UNSTORABLE"})
"""Codes whose action no policy can change: a retry could not help, or is not the worker's to decide."""

UNKNOWN = "UNKNOWN"


class ErrorClass(StrEnum):
    """What to do about an error (SPEC R1)."""

    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    RATE_LIMITED = "rate_limited"
    SKIP = "skip"
    IN_DOUBT = "in_doubt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One classified error. ``text`` is redacted and storable; the traceback, if any, is its tail."""

    code: str
    kind: ErrorClass
    text: str
    retry_after_s: float | None = None


def usable_code(code: Any) -> bool:
    """Whether somebody other than fencepost may give this code: 1 to 64 printable characters, not reserved."""
    return (
        isinstance(code, str)
        and 0 < len(code) <= CODE_CHARS
        and code.isprintable()
        and code == code.strip()
        and code not in RESERVED
    )
