"""A claim whose connection was lost: it may come through long after the database was asked what this process holds."""

from __future__ import annotations

import time

LOOK_EVERY_S = 1.0


class OpenClaim:
    """When to look for what such a claim took. Only the clerk's thread uses it.

    The server process may go on, or hold a COMMIT that waits for a standby, when its socket is gone: then the first look
    shows nothing. Past the ttl the reaper has what it took.
    """

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._sent = False
        self._until = self._looked = 0.0

    def sent(self) -> None:
        """A claim is on its way."""
        self._sent = True

    def answered(self) -> None:
        """It was answered; an earlier one may be open still."""
        self._sent = False

    def broke(self) -> None:
        """A call failed: if it was the claim, nobody knows what it took."""
        if self._sent:
            self._sent = False
            self._until = time.monotonic() + self._ttl_s

    def looked(self) -> None:
        """The database is asked what this process holds."""
        self._looked = time.monotonic()

    def wants_a_look(self) -> bool:
        """Whether it may have come through since the last look."""
        now = time.monotonic()
        return now < self._until and now - self._looked >= LOOK_EVERY_S
