"""One leader per cluster, elected by a leased row with an epoch (SPEC S3, DESIGN 5).

Any worker can be it; `fencepost leader` does nothing else. The row is taken when its lease is over, renewed every third
of the lease, and given up at a stop, so that another takes over at once. No session lock: it works behind a pooler.

Two may believe in it at once for no longer than a statement takes: the holder counts the lease from the moment that it
*sent* its last successful renewal, on a clock that goes on in a suspend, and stops a tenth earlier than the database
lets another in. And nothing depends on it: every duty is a bounded statement that two can run side by side.
"""

from __future__ import annotations

import logging
import random
import secrets
import threading
from collections.abc import Callable

from fencepost.duty.continuity import Continuity, boottime
from fencepost.duty.lane import Duty, Lane, Outage
from fencepost.duty.promoter import Promoter
from fencepost.duty.pruner import Pruner
from fencepost.duty.reaper import Reaper
from fencepost.duty.rotator import Rotator
from fencepost.duty.settings import DutySettings
from fencepost.duty.sweeper import Expirer, GateKeeper, Waker, WorkerRows
from fencepost.duty.vacuum import Vacuumer
from fencepost.errors import FencepostError, SchemaError, UnsupportedDatabaseError
from fencepost.sql.catalog import Catalog
from fencepost.store import duties, faults
from fencepost.store.wire import Wire

log = logging.getLogger("fencepost.leader")

_MARGIN = 0.9
"""The share of its lease that a leader trusts."""

_SLOW_CALL_S = 60.0
"""Seconds that a purge or a vacuum may take before its connection is closed."""


class Leader(threading.Thread):
    """The thread that follows, leads and resigns.

    Args:
        dsn: the connection string; the thread opens a connection of its own, and a second one while it leads.
        catalog: the SQL of the schema.
        settings: periods and bounds.
        stop: set it to end the thread, which resigns first.
        token: of the worker row of this process, if it has one, so that `status` can name it.
        own: our own clock, in seconds; another one in tests only.

    ``error`` is what ended the thread before its stop (no schema, no PostgreSQL); None otherwise.
    """

    def __init__(
        self,
        dsn: str,
        catalog: Catalog,
        settings: DutySettings | None = None,
        stop: threading.Event | None = None,
        *,
        token: int | None = None,
        own: Callable[[], float] = boottime,
    ) -> None:
        super().__init__(name="fencepost-leader", daemon=True)
        self.settings = settings or DutySettings()
        self.error: FencepostError | None = None
        self.token = secrets.randbits(63) if token is None else token
        self.epoch = 0
        self._sql = catalog
        self._halt = stop or threading.Event()
        self._own = own
        self._until = 0.0
        self._renew_at = 0.0
        self._outage = Outage()
        self._continuity = Continuity(self.settings.heartbeat_interval, own=own)
        self._wire = Wire(dsn, deadline=max(1.0, self.settings.renew_period), name="leader")
        self._slow_wire = Wire(dsn, deadline=_SLOW_CALL_S, name="leader maintenance")
        self._fast = Lane(self._fast_duties(), own=own, outage=self._outage, broke=self._continuity.connection_broke)
        self._slow = Lane(self._slow_duties(), own=own, outage=self._outage, broke=lambda: None)

    @property
    def leading(self) -> bool:
        """Whether this process may do the duties at this moment."""
        return self._own() < self._until

    def halt(self) -> None:
        """Ask the thread to resign and end; `join` waits for it. Twice is once."""
        self._halt.set()

    def run(self) -> None:
        """Follow and lead until the stop; resign at the end. Only an error that no retry can mend ends it earlier."""
        maintenance = threading.Thread(target=self._maintain, name="fencepost-leader-maintenance", daemon=True)
        maintenance.start()
        try:
            while not self._halt.is_set():
                self._halt.wait(self._turn())
        except FencepostError as error:
            self.error = error
            log.error("the leader ends: %s", error)
        finally:
            self._resign()
            self._wire.close()

    def _turn(self) -> float:
        """Renew or try to win the lease when it is time, then the duties that are due; the seconds to wait."""
        try:
            if self._own() >= self._renew_at:
                self._campaign()
        except Exception as error:  # noqa: BLE001 - an outage is waited out, whatever it looks like
            return self._campaign_failed(error)
        if not self.leading:
            return max(0.0, self._renew_at - self._own())
        until_due = self._fast.run_due(lambda: self.leading and self._own() < self._renew_at)
        return max(0.0, min(until_due, self._renew_at - self._own()))

    def _campaign(self) -> None:
        """Ask for the row; we hold it from the moment of asking."""
        sent = self._own()
        answer = self._wire.run(duties.lead(self._sql, self.token, self.settings.lease, self._continuity.record))
        self._outage.is_over()
        if not answer.leading:
            if self._until:
                log.warning("another process leads now (epoch %d)", answer.epoch)
            self._until = 0.0
            self._renew_at = sent + self.settings.follow_period * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
            return
        newcomer = answer.epoch != self.epoch or not self._until
        self._until = sent + self.settings.lease * _MARGIN
        self._renew_at = sent + self.settings.renew_period
        self.epoch = answer.epoch
        if newcomer:
            log.info("this process leads now (epoch %d)", answer.epoch)
            self._continuity.inherit(answer.record)
            self._fast.start_over()
            self._slow.start_over()

    def _campaign_failed(self, error: Exception) -> float:
        """Log once per episode and answer how long to wait; raise what no retry can mend."""
        meaning = faults.translate(error)
        if isinstance(meaning, SchemaError | UnsupportedDatabaseError):
            raise meaning from error
        if faults.needs_reconnect(error):
            self._continuity.connection_broke()
        self._outage.begins(error)
        return min(1.0, self.settings.renew_period / 2) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter

    def _maintain(self) -> None:
        """The second thread: purges and vacuums may take long and must not delay a rescue or a renewal."""
        try:
            while not self._halt.is_set():
                if self.leading:
                    pause = self._slow.run_due(lambda: self.leading and not self._halt.is_set())
                    self._halt.wait(min(max(pause, 0.02), self.settings.follow_period))
                else:
                    self._slow_wire.close()
                    self._halt.wait(self.settings.follow_period)
        except FencepostError as error:
            log.error("retention and vacuum end: %s", error)
        finally:
            self._slow_wire.close()

    def _resign(self) -> None:
        """Give the row up, so that another need not wait for the lease's end. Best effort: the lease ends anyhow."""
        held = self._until
        self._until = 0.0
        if not held or self.error is not None:
            return
        try:
            self._wire.run(duties.resign(self._sql, self.token))
            log.info("resigned as leader (epoch %d)", self.epoch)
        except Exception as error:  # noqa: BLE001 - we are leaving
            log.info("could not resign as leader, the lease ends by itself: %s", faults.explain(error))

    def _fast_duties(self) -> list[Duty]:
        wire, sql, settings = self._wire, self._sql, self.settings
        return [
            Reaper(wire, sql, settings, self._continuity, self._own),
            Promoter(wire, sql, settings),
            Expirer(wire, sql, settings),
            Waker(wire, sql, settings),
            GateKeeper(wire, sql, settings),
            Rotator(wire, sql, settings, self._own),
            WorkerRows(wire, sql, settings, self._continuity),
        ]

    def _slow_duties(self) -> list[Duty]:
        return [
            Pruner(self._slow_wire, self._sql, self.settings),
            Vacuumer(self._slow_wire, self._sql, self.settings),
        ]
