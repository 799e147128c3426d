"""Retention (SPEC L4): finished jobs go in small batches, after leaving their daily counts."""

from __future__ import annotations

import logging

from fencepost.duty.lane import Turn
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog
from fencepost.store import duties
from fencepost.store.wire import Wire

log = logging.getLogger("fencepost.leader")

_ROUNDS = 20


class Pruner:
    """Removes jobs whose time is over. That time already contains the dedup window, and doubtful jobs have none."""

    name = "pruner"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings) -> None:
        self.period_s = settings.pruner_period
        self._wire, self._sql, self._batch = wire, sql, settings.batch

    def run_turn(self) -> Turn:
        """Purge up to twenty batches, each its own short transaction that skips locked rows."""
        done = 0
        more = True
        for _ in range(_ROUNDS):
            gone = self._wire.run(duties.purge(self._sql, self._batch))
            done += gone
            if gone < self._batch:
                more = False
                break
        if done:
            log.info("retention removed %d finished jobs", done)
        return Turn(done, more)
