"""Takes jobs back from lost workers: by the lease alone, on the database's clock, with evidence (SPEC C6, C10, C11).

The criterion is the row's own last beat and ttl. Whether the worker has a row, a limit or a lock matters nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fencepost.duty.continuity import Continuity, Look
from fencepost.duty.lane import Turn
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog
from fencepost.store import duties, jobs
from fencepost.store.wire import Wire

log = logging.getLogger("fencepost.leader")

_ROUNDS = 10
"""Batches a turn: 5000 leases a second by default, and the lane goes on with the others in between."""


class Reaper:
    """One turn: look for evidence, then take back what is stale in bounded batches."""

    name = "reaper"

    def __init__(
        self, wire: Wire, sql: Catalog, settings: DutySettings, continuity: Continuity, own: Callable[[], float]
    ) -> None:
        self.period_s = settings.reaper_period
        self._wire, self._sql, self._batch = wire, sql, settings.batch
        self._continuity, self._own = continuity, own
        self._said: str | None = None

    def run_turn(self) -> Turn:
        """Rescue up to ten batches. What a cut-off turn left is stale still and found by the next (STK-5).

        Leases are judged as of the look: a clock that jumps, or a server that stands still, after it is no evidence.
        """
        look = self._look()
        grace = self._continuity.judge(look)
        self._say()
        done = 0
        for _ in range(_ROUNDS):
            rescued = self._wire.run(jobs.rescue(self._sql, limit=self._batch, grace_s=grace, seen_at=look.now))
            done += len(rescued)
            if len(rescued) < self._batch:
                break
        if done:
            log.info("took %d jobs back from workers that no longer beat", done)
        return Turn(done, done >= self._batch * _ROUNDS)

    def _look(self) -> Look:
        sent = self._own()
        seen = self._wire.run(duties.evidence(self._sql))
        return Look(
            started_at=seen.started_at,
            timeline=seen.timeline,
            now=seen.now,
            sent=sent,
            received=self._own(),
            beats=seen.beats,
        )

    def _say(self) -> None:
        because = self._continuity.waiting_because
        if because == self._said:
            return
        self._said = because
        if because is not None:
            log.warning("%s: live workers get two beat intervals before their leases are judged", because)
        else:
            log.info("the database is in steady service again: leases are judged as they are")
