"""Makes due jobs ready. Every claim does it too, so a minute without a leader delays nothing (DESIGN 9)."""

from __future__ import annotations

from fencepost.duty.lane import Turn
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog
from fencepost.store import jobs
from fencepost.store.wire import Wire

_ROUNDS = 10


class Promoter:
    """The sweep for queues that no worker is asking for right now, and for slots that a user's transaction left due."""

    name = "promoter"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings) -> None:
        self.period_s = settings.promoter_period
        self._wire, self._sql, self._batch = wire, sql, settings.batch

    def run_turn(self) -> Turn:
        """Promote up to ten batches."""
        done = 0
        for _ in range(_ROUNDS):
            moved = self._wire.run(jobs.promote(self._sql, self._batch))
            done += moved
            if moved < self._batch:
                return Turn(done)
        return Turn(done, more=True)
