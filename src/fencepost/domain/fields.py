"""Checks of single fields: each gives the value in its final form, or one sentence that names the field.

The messages never quote a whole value: it may be huge, unprintable or secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from fencepost.domain.durations import Duration, seconds
from fencepost.errors import UsageError

_SHOWN = 40
_YEARS = (1970, 9999)
"""PostgreSQL would go on to 294276, but no Python program could read such a moment back."""


def word(what: str, value: Any, limit: int) -> str:
    """Text that can be a name or key: 1 to ``limit`` printable characters, no white space at its ends.

    So it holds no NUL, no lone surrogate and no control or direction character: PostgreSQL can store and index it, and a
    person sees what it is.
    """
    if not isinstance(value, str):
        message = f"{what} must be text, not {type(value).__name__}"
        raise UsageError(message)
    if not value or value != value.strip():
        message = f"{what} must not be empty or begin or end with white space"
        raise UsageError(message)
    if len(value) > limit:
        message = f"{what} has {len(value)} characters; {limit} are allowed"
        raise UsageError(message)
    if not value.isprintable():
        message = f"{what} holds a character that cannot be printed or stored (NUL, control, lone surrogate)"
        raise UsageError(message)
    return str(value)


def one_of(what: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of the words."""
    if not isinstance(value, str) or value not in allowed:
        message = f"{what} must be one of {', '.join(allowed)}, not {shown(value)}"
        raise UsageError(message)
    return str(value)


def whole(what: str, value: Any, least: int, most: int) -> int:
    """A whole number in its range; True and 1.0 are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"{what} must be a whole number, not {shown(value)}"
        raise UsageError(message)
    if not least <= value <= most:
        message = f"{what} must be between {least} and {most}, not {shown(value)}"
        raise UsageError(message)
    return int(value)


def truth(what: str, value: Any) -> bool:
    """True or False; ``"no"`` and 0 are refused, since a slip here runs a payment twice."""
    if not isinstance(value, bool):
        message = f"{what} must be True or False, not {shown(value)}"
        raise UsageError(message)
    return value


def duration(what: str, value: Duration, *, above: float | None = None) -> float:
    """Zero or more seconds, up to ten years."""
    try:
        found = seconds(value)
    except ValueError as error:
        message = f"{what} must be {str(error).removeprefix('a duration must be ')}"
        raise UsageError(message) from None
    if above is not None and found <= above:
        message = f"{what} must be longer than {above:g} seconds"
        raise UsageError(message)
    return found


def moment(what: str, value: Any) -> datetime:
    """An aware datetime between 1970 and 9999, in UTC."""
    if not isinstance(value, datetime):
        message = f"{what} must be a datetime with a time zone, not {type(value).__name__}"
        raise UsageError(message)
    if value.tzinfo is None or value.utcoffset() is None:
        message = f"{what} has no time zone; use datetime.now(timezone.utc) + ... or attach one"
        raise UsageError(message)
    try:
        instant = value.astimezone(UTC)
    except (OverflowError, ValueError):
        instant = None
    if instant is None or not _YEARS[0] <= instant.year <= _YEARS[1]:
        message = f"{what} must lie between the years {_YEARS[0]} and {_YEARS[1]}"
        raise UsageError(message)
    return instant


def tags(what: str, value: Any, most: int, limit: int) -> tuple[str, ...]:
    """Up to ``most`` different words of ``limit`` characters, in order of first mention."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        message = f"{what} must be a list of words, not {type(value).__name__}"
        raise UsageError(message)
    found: dict[str, None] = {}
    for one in value:
        found[word(f"{what}: each tag", one, limit)] = None
        if len(found) > most:
            message = f"{what} holds more than the {most} tags that are allowed"
            raise UsageError(message)
    return tuple(found)


def shown(value: Any) -> str:
    """A short form of a value for a message; never raises."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    try:
        return f"{value!r:.{_SHOWN}}"
    except Exception:  # noqa: BLE001 - a broken __repr__, or an integer of thousands of digits
        return f"a {type(value).__name__}"
