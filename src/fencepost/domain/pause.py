"""Retry-After and pauses: what a provider asked for, and whether it is waited out in the slot (SPEC R3)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from fencepost.domain.limits import LONGEST_BACKOFF_S, SHORT_PAUSE_S


def retry_after_s(value: object, now: datetime) -> float | None:
    """Seconds from ``now`` that a Retry-After value asks for (RFC 9110 10.2.3), 0 to a year; None: unreadable.

    Takes seconds (number or text), a timedelta, an aware datetime, or an HTTP date. A date that has passed is 0.
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, timedelta):
        return _bounded(value.total_seconds())
    if isinstance(value, datetime):
        return None if value.tzinfo is None else _bounded((value - now).total_seconds())
    if isinstance(value, int | float):
        return _bounded(value)
    if not isinstance(value, str) or len(value) > 100:
        return None
    try:
        return _bounded(float(value.strip()))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _bounded((moment - now).total_seconds())


def is_short(delay_s: float) -> bool:
    """Whether the pause is waited out in the slot."""
    return delay_s <= SHORT_PAUSE_S


def _bounded(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return LONGEST_BACKOFF_S
    if math.isnan(number):
        return None
    return min(max(number, 0.0), LONGEST_BACKOFF_S)
