"""Whether a call that failed may be sent again, and how: one rule for the sync and the async client (SPEC W4)."""

from __future__ import annotations

import time

import psycopg

from fencepost.errors import FencepostError
from fencepost.store import faults

TRIES = 4
PAUSES_S = (0.05, 0.2, 0.5)
ROLLED_BACK = frozenset({"40001", "40P01"})  # serialization failure, deadlock: certainly nothing was committed


class Again:
    """The tries of one call. ``unsure`` says that an earlier try may have been committed."""

    def __init__(self, *, budget_s: float, harmless: bool) -> None:
        """``harmless``: it may be sent again although it may have taken effect (reads; enqueue, by its job_ids)."""
        self._ends = time.monotonic() + budget_s
        self._harmless = harmless
        self._failed = 0
        self.sent = False
        self.unsure = False

    @property
    def on_terminal(self) -> str:
        """A repetition must not start a job anew that was enqueued by the first try and has failed meanwhile."""
        return "exists" if self.unsure else "resubmit"

    def pause(self, error: Exception) -> float:
        """Seconds until the next try; raises what the caller should see if there is none."""
        if isinstance(error, FencepostError) and not faults.is_transient(error):
            raise error
        self._failed += 1
        unsure = self.sent and not (isinstance(error, psycopg.Error) and error.sqlstate in ROLLED_BACK)
        self.sent = False
        over = self._failed >= TRIES or time.monotonic() >= self._ends
        if over or not faults.is_transient(error) or (unsure and not self._harmless):
            raise faults.translate(error) from error
        self.unsure = self.unsure or unsure
        return PAUSES_S[self._failed - 1]
