"""What a caller may ask for with one job, checked before anything is sent (SPEC Q6).

Every option has one row in the table below: the field of `NewJob` that it sets, and its check. The bounds are those of the
columns, or below them, so that PostgreSQL refuses nothing that was accepted here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.domain.fields import duration, moment, tags, whole, word
from fencepost.domain.limits import ATTEMPTS, KEY_CHARS, META_BYTES, NAME_CHARS, PRIORITY, TAG_CHARS, TAGS
from fencepost.domain.payload import encode
from fencepost.errors import UsageError

Check = Callable[[str, Any], Any]


def _key(field: str, value: Any) -> str:
    return word(field, value, KEY_CHARS)


def _meta(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        message = f"{field} must be a mapping with text keys"
        raise UsageError(message)
    plain = dict(value)
    encode(plain, limit=META_BYTES, what=field)
    return plain


_CHECKS: dict[str, tuple[str, Check]] = {
    "concurrency_key": ("concurrency_key", _key),
    "dedup_window": ("dedup_s", duration),
    "delay": ("delay_s", duration),
    "finish_by": ("finish_by", moment),
    "job_id": ("job_id", _key),
    "max_attempts": ("max_attempts", lambda field, value: whole(field, value, 1, ATTEMPTS)),
    "meta": ("meta", _meta),
    "priority": ("priority", lambda field, value: whole(field, value, -PRIORITY, PRIORITY)),
    "queue": ("queue", lambda field, value: word(field, value, NAME_CHARS)),
    "run_at": ("run_at", moment),
    "start_by": ("start_by", moment),
    "tags": ("tags", lambda field, value: tags(field, value, TAGS, TAG_CHARS)),
    "tenant": ("tenant", _key),
    "unique_key": ("unique_key", _key),
}

OPTIONS = frozenset(_CHECKS)
"""Every option that a job may be enqueued with."""


def fields(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `NewJob` that these options set; None is the task's default.

    Raises `UsageError` (or `PayloadError` for ``meta``), one sentence that names the task, the option and what to do.
    """
    found: dict[str, Any] = {}
    for option, value in options.items():
        if option not in _CHECKS:
            raise UsageError(unknown(f"{task}: using(...)", option, OPTIONS))
        if value is None:
            continue
        field, check = _CHECKS[option]
        try:
            found[field] = check(option, value)
        except UsageError as error:
            message = f"{task}: {error}"
            raise type(error)(message) from None
    _fit(task, found)
    return found


def _fit(task: str, found: Mapping[str, Any]) -> None:
    if "run_at" in found and "delay_s" in found:
        message = f"{task}: give run_at or delay, not both"
        raise UsageError(message)
    if "finish_by" in found:
        for earlier in ("start_by", "run_at"):
            if earlier in found and found["finish_by"] <= found[earlier]:
                message = f"{task}: finish_by must be later than {earlier}"
                raise UsageError(message)
    if "start_by" in found and "run_at" in found and found["start_by"] < found["run_at"]:
        message = f"{task}: start_by must not be earlier than run_at, before which the job cannot start"
        raise UsageError(message)


def unknown(where: str, given: str, known: Iterable[str]) -> str:
    """One sentence about an option that does not exist, with the nearest that does."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, 1)
    return f"{where} has no option {given!r}; " + (
        f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(names)}"
    )
