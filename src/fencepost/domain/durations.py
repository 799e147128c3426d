"""Durations as people write them: seconds, a timedelta, or "30s", "2m", "1h30m", "1d"."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from fencepost.domain.limits import LONGEST_S

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|[smhdw])")

Duration = float | int | str | timedelta


def seconds(value: Duration) -> float:
    """The duration in seconds, 0 to ten years. Raises ValueError, whose text says what a duration looks like."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | timedelta):
        message = f"a duration is seconds, a timedelta or text such as '2m', not {type(value).__name__}"
        raise ValueError(message)  # noqa: TRY004 - one error for every duration that is none
    number = _read(value) if isinstance(value, str) else _number(value)
    if not math.isfinite(number) or number < 0 or number > LONGEST_S:
        message = f"a duration lies between 0 and ten years, not {str(value)[:40]}"
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
    squeezed = text.strip().lower()
    if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", squeezed):
        return float(squeezed)
    total, end = 0.0, 0
    for part in _PART.finditer(squeezed):
        if squeezed[end : part.start()].strip():
            break
        total += float(part[1]) * UNITS[part[2]]
        end = part.end()
    if not end or squeezed[end:].strip():
        message = f"{text[:40]!r} is no duration; write seconds or '30s', '2m', '1h30m', '1d'"
        raise ValueError(message)
    return total
