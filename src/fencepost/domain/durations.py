"""Durations as people write them: seconds, a timedelta, or "30s", "2m", "1h30m", "1d"."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from fencepost.domain.limits import LONGEST_S

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PLAIN = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s{0,3}(ms|[smhdw])\s{0,3}")
_SHOWN = 40

Duration = float | int | str | timedelta


def seconds(value: Duration) -> float:
    """The duration in seconds, 0 to ten years. Raises ValueError, whose text says what a duration looks like."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | timedelta):
        message = f"a duration must be seconds, a timedelta or text such as '2m', not {type(value).__name__}"
        raise ValueError(message)  # noqa: TRY004 - one kind of error for whatever is no duration
    number = _read(value) if isinstance(value, str) else _number(value)
    if not math.isfinite(number) or number < 0 or number > LONGEST_S:
        message = f"a duration must be between 0 and ten years, not {_shown(value)}"
        raise ValueError(message)
    return number


def _number(value: float | timedelta) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _read(text: str) -> float:
    squeezed = text.strip().lower() if len(text) <= 2 * _SHOWN else ""  # never half of what was written
    if _PLAIN.fullmatch(squeezed):
        return float(squeezed)
    total, end = 0.0, 0
    units: list[float] = []
    while part := _PART.match(squeezed, end):
        units.append(UNITS[part[2]])
        total += float(part[1]) * units[-1]
        end = part.end()
    if not units or end < len(squeezed) or units != sorted(set(units), reverse=True):
        message = f"a duration must be seconds or text such as '30s', '2m', '1h30m' or '1d', not {text[:_SHOWN]!r}"
        raise ValueError(message)
    return total


def _shown(value: Duration) -> str:
    try:
        return str(value)[:_SHOWN]
    except ValueError:  # an integer beyond Python's own limit of digits
        return "a number of thousands of digits"
