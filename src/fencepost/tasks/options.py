"""The options of one enqueue: what `Task.using` takes, checked before anything is sent (SPEC Q6).

Unknown names, naive datetimes, negative delays and text that PostgreSQL cannot hold are refused here with a sentence
that names the field. ``None`` means "the task's default" everywhere.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import psycopg

from fencepost.domain.durations import seconds
from fencepost.domain.limits import KEY_CHARS, META_BYTES, NAME_CHARS, TAG_CHARS, TAGS
from fencepost.domain.payload import encode
from fencepost.errors import UsageError

Duration = float | int | str | timedelta
"""Seconds, a timedelta, or text such as "90s", "2m", "1h30m"."""

Tx = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
"""The caller's connection, which must be inside a transaction."""

PRIORITY_LIMIT = 32_767
ATTEMPTS_LIMIT = 32_767
SECONDS_LIMIT = 100 * 365 * 86_400.0
_YEARS = (1970, 9999)


class EnqueueOptions(TypedDict, total=False):
    """Keyword arguments of ``using(...)``.

    tx: the caller's psycopg connection, inside a transaction: the job exists exactly if that transaction commits.
    job_id: idempotent, global, kept while active and for the dedup window (SPEC Q3).
    run_at: aware datetime; not before it. delay: not before that long after the call (by the database's clock).
    priority: higher runs first. queue: a named lane.
    unique_key: at most one active job per task and key (SPEC Q4). concurrency_key, tenant: for limits and fairness.
    start_by: too late to start then: ends skipped. finish_by: ends failed with code DEADLINE.
    max_attempts, dedup_window: instead of the task's. tags: words to find it by. meta: a small JSON object.
    """

    tx: Tx | None
    job_id: str | None
    run_at: datetime | None
    delay: Duration | None
    priority: int | None
    queue: str | None
    unique_key: str | None
    concurrency_key: str | None
    tenant: str | None
    start_by: datetime | None
    finish_by: datetime | None
    max_attempts: int | None
    dedup_window: Duration | None
    tags: Iterable[str] | None
    meta: Mapping[str, Any] | None


def name(field: str, value: Any, *, limit: int = NAME_CHARS) -> str:
    """Text that can be a name or key in PostgreSQL: not empty, bounded, printable, no surrogates."""
    if not isinstance(value, str):
        raise UsageError(f"{field} must be text, not {type(value).__name__}")
    if not value or value != value.strip():
        raise UsageError(f"{field} must not be empty or begin or end with white space")
    if len(value) > limit:
        raise UsageError(f"{field} has {len(value)} characters; {limit} are allowed")
    if not value.isprintable():
        raise UsageError(f"{field} holds a character that cannot be printed or stored (NUL, control, lone surrogate)")
    return value


def _key(field: str, value: Any) -> str:
    return name(field, value, limit=KEY_CHARS)


def moment(field: str, value: Any) -> datetime:
    """An aware datetime between 1970 and 9999, in UTC."""
    if not isinstance(value, datetime):
        raise UsageError(f"{field} must be a datetime with a time zone, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise UsageError(f"{field} has no time zone; use datetime.now(timezone.utc) + ... or attach one")
    try:
        instant = value.astimezone(UTC)
    except (OverflowError, ValueError):
        instant = None
    if instant is None or not _YEARS[0] <= instant.year <= _YEARS[1]:
        raise UsageError(f"{field} must lie between the years {_YEARS[0]} and {_YEARS[1]}")
    return instant


def duration(field: str, value: Any) -> float:
    """Zero or more seconds, up to 100 years."""
    try:
        amount = seconds(value)
    except (UsageError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{field} must be seconds, a timedelta or text such as '2m': {error}") from None
    if not math.isfinite(amount) or amount < 0:
        raise UsageError(f"{field} must be zero or more seconds, not {value!r}")
    if amount > SECONDS_LIMIT:
        raise UsageError(f"{field} must be at most 100 years")
    return amount


def whole(field: str, value: Any, low: int, high: int) -> int:
    """A whole number within bounds; bool is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{field} must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        raise UsageError(f"{field} must be between {low} and {high}, not {value}")
    return value


def _tags(field: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise UsageError(f"{field} must be a list of words, not {type(value).__name__}")
    words = tuple(dict.fromkeys(name(f"{field}: each tag", word, limit=TAG_CHARS) for word in value))
    if len(words) > TAGS:
        raise UsageError(f"{field} holds {len(words)} tags; {TAGS} are allowed")
    return words


def _meta(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{field} must be a mapping with text keys")
    plain = dict(value)
    encode(plain, limit=META_BYTES, what=field)
    return plain


_CHECKS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "job_id": ("job_id", _key),
    "run_at": ("run_at", moment),
    "delay": ("delay_s", duration),
    "priority": ("priority", lambda f, v: whole(f, v, -PRIORITY_LIMIT, PRIORITY_LIMIT)),
    "queue": ("queue", name),
    "unique_key": ("unique_key", _key),
    "concurrency_key": ("concurrency_key", _key),
    "tenant": ("tenant", _key),
    "start_by": ("start_by", moment),
    "finish_by": ("finish_by", moment),
    "max_attempts": ("max_attempts", lambda f, v: whole(f, v, 1, ATTEMPTS_LIMIT)),
    "dedup_window": ("dedup_s", duration),
    "tags": ("tags", _tags),
    "meta": ("meta", _meta),
}

OPTIONS = frozenset({"tx", *_CHECKS})
"""Every name that ``using`` knows."""


def checked(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `NewJob` that these options set. Raises UsageError, naming task and option."""
    fields: dict[str, Any] = {}
    for option, value in options.items():
        if option not in OPTIONS:
            raise UsageError(unknown(f"{task}: using(...)", option, OPTIONS))
        if option == "tx" or value is None:
            continue
        field, check = _CHECKS[option]
        try:
            fields[field] = check(option, value)
        except UsageError as error:
            raise type(error)(f"{task}: {error}") from None
    if "run_at" in fields and "delay_s" in fields:
        raise UsageError(f"{task}: give run_at or delay, not both")
    if "start_by" in fields and "finish_by" in fields and fields["finish_by"] <= fields["start_by"]:
        raise UsageError(f"{task}: finish_by must be later than start_by")
    return fields


def unknown(where: str, given: str, known: Iterable[str]) -> str:
    """One sentence about an option that does not exist, with the nearest that does."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, 1)
    return f"{where} has no option {given!r}; " + (
        f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(names)}"
    )
