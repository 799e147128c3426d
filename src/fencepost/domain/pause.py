"""Retry-After and pauses: what a provider asked for, and whether it is waited out in the slot (SPEC R3)."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from fencepost.domain.limits import LONGEST_BACKOFF_S, SHORT_PAUSE_S

_SECONDS = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_LONGEST_HEADER = 100


def retry_after_s(value: object, now: datetime | None) -> float | None:
    """Seconds from ``now`` that a Retry-After value asks for (RFC 9110 10.2.3), 0 to a year; None: it says nothing.

    Takes seconds (a number, or digits with an optional fraction), a timedelta, an aware datetime, or an HTTP date in any
    of the three forms of RFC 9110 5.6.7. A date that has passed is 0. Negative, infinite and unreadable values, and
    dates while ``now`` is not known, are None: the task's backoff decides then.
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, timedelta):
        return _bounded(value.total_seconds())
    if isinstance(value, datetime):
        return _until(value, now)
    if isinstance(value, int | float):
        return _bounded(value)
    if not isinstance(value, str) or len(value) > _LONGEST_HEADER:
        return None
    trimmed = value.strip()
    return _bounded(float(trimmed)) if _SECONDS.fullmatch(trimmed) else _date(trimmed, now)


def is_short(delay_s: float) -> bool:
    """Whether the pause is waited out in the slot."""
    return delay_s <= SHORT_PAUSE_S


def _date(text: str, now: datetime | None) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # "-0000" and a missing zone say "in UTC, from nobody knows where" (RFC 5322 3.3)
    return _until(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC), now)


def _until(moment: datetime, now: datetime | None) -> float | None:
    if now is None or moment.tzinfo is None or moment.utcoffset() is None:
        return None
    return _bounded(max(0.0, (moment - now).total_seconds()))


def _bounded(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return LONGEST_BACKOFF_S if value > 0 else None
    if not math.isfinite(number) or number < 0:
        return None
    return min(number, LONGEST_BACKOFF_S)
