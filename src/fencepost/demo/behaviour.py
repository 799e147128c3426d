"""How the outside world misbehaves, by key: the same run has the same troubles, and the proof knows how many to expect.

A key's number is a hash of it in [0, 1000). The shares are per thousand.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum


class Trouble(StrEnum):
    """What happens to the *first* request or mail of a key."""

    NONE = "none"
    UNAVAILABLE = "503"
    THROTTLED = "429"
    THROTTLED_LONG = "429 long"
    SLOW = "slow"
    LOST_ANSWER = "time-out after success"


_HTTP = (
    (50, Trouble.UNAVAILABLE),
    (80, Trouble.THROTTLED),
    (84, Trouble.THROTTLED_LONG),
    (114, Trouble.SLOW),
    (129, Trouble.LOST_ANSWER),
)
_MAIL = ((20, Trouble.UNAVAILABLE), (35, Trouble.LOST_ANSWER))


def number_of(key: str) -> int:
    """A stable number of the key, 0 to 999."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % 1000


def http_trouble(key: str) -> Trouble:
    """What the provider does to the first request that carries this idempotency key."""
    return _pick(_HTTP, "http:" + key)


def mail_trouble(key: str) -> Trouble:
    """What the mail sink does to the first mail with this Message-ID."""
    return _pick(_MAIL, "mail:" + key)


def _pick(table: tuple[tuple[int, Trouble], ...], key: str) -> Trouble:
    number = number_of(key)
    return next((trouble for limit, trouble in table if number < limit), Trouble.NONE)
