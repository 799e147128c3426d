"""The small sweeps: deadlines of waiting jobs, jobs that no worker knew, key limits, rows of long-dead processes."""

from __future__ import annotations

import logging

from fencepost.duty.continuity import Continuity
from fencepost.duty.lane import Turn
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog
from fencepost.store import duties
from fencepost.store.wire import Wire

log = logging.getLogger("fencepost.leader")


class Expirer:
    """``start_by`` and ``finish_by`` of jobs that wait where no claim meets them (SPEC Q6, L6)."""

    name = "expirer"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings) -> None:
        self.period_s = settings.sweeper_period
        self._wire, self._sql, self._batch = wire, sql, settings.batch

    def run_turn(self) -> Turn:
        """End one batch of jobs whose time has passed."""
        done = self._wire.run(duties.expire(self._sql, self._batch))
        return Turn(done, more=done >= self._batch)


class Waker:
    """Jobs parked because no worker knew their task or version, once some live worker does (SPEC Q8)."""

    name = "waker"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings) -> None:
        self.period_s = settings.sweeper_period
        self._wire, self._sql, self._batch = wire, sql, settings.batch

    def run_turn(self) -> Turn:
        """Wake one batch."""
        done = self._wire.run(duties.wake_known(self._sql, self._batch))
        return Turn(done, more=done >= self._batch)


class GateKeeper:
    """Key limits (SPEC C7): recounts the gates that disagree with what runs, and forgets those that say nothing."""

    name = "gatekeeper"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings) -> None:
        self.period_s = settings.gate_period
        self._wire, self._sql, self._batch = wire, sql, settings.batch

    def run_turn(self) -> Turn:
        """Recount one batch, sweep one batch."""
        mended = self._wire.run(duties.recount_gates(self._sql, self._batch))
        if mended:
            log.warning("%d key limits were miscounted and have been recounted", mended)
        swept = self._wire.run(duties.sweep_gates(self._sql, self._batch))
        return Turn(mended + swept, more=swept >= self._batch)


class WorkerRows:
    """Rows of processes that have not beaten for a day. Never a criterion for a rescue (STK-1): only tidiness.

    Not while the database has just been away: then all rows are old, those of live workers too.
    """

    name = "worker rows"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings, continuity: Continuity) -> None:
        self.period_s = settings.gate_period
        self._age_s = settings.worker_row_age
        self._wire, self._sql, self._batch, self._continuity = wire, sql, settings.batch, continuity

    def run_turn(self) -> Turn:
        """Remove one batch."""
        if self._continuity.waiting_because is not None:
            return Turn(0)
        done = self._wire.run(duties.forget_workers(self._sql, self._age_s, self._batch))
        return Turn(done, more=done >= self._batch)
