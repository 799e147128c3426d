"""Vacuums the narrow tables by consumed rows, oftener than autovacuum comes by (DESIGN 4).

A claim reads the left edge of an index; every consumed row leaves a dead entry there until somebody vacuums. VACUUM
needs the owner's role, or MAINTAIN from PostgreSQL 17 on; where the leader has neither, it says once what it costs.
"""

from __future__ import annotations

import logging

from fencepost.duty.lane import Turn
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog
from fencepost.store import duties
from fencepost.store.views import VacuumCandidate
from fencepost.store.wire import Wire

_PATIENCE_S = 10.0
"""A snapshot that is younger is nobody's fault."""

log = logging.getLogger("fencepost.leader")


class Vacuumer:
    """VACUUM (INDEX_CLEANUP ON, SKIP_LOCKED): waits for nobody, blocks no reader and no writer."""

    name = "vacuum"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings) -> None:
        self.period_s = settings.vacuum_period
        self._after = settings.vacuum_after
        self._wire, self._sql = wire, sql
        self._said = False
        self._kept = False

    def run_turn(self) -> Turn:
        """Vacuum each table that has enough dead rows and that this role may vacuum."""
        tables = self._wire.run(duties.vacuum_candidates(self._sql, self._after))
        done = sum(map(self._vacuum, tables))
        if done:
            self._look_what_is_left()
        return Turn(done)

    def _vacuum(self, table: VacuumCandidate) -> bool:
        if table.allowed:
            self._wire.call(duties.vacuum(self._sql, table.name))
            log.debug("vacuumed %s: %d dead rows", table.name, table.dead)
            return True
        if not self._said:
            self._said = True
            log.warning(
                "this role may not VACUUM fencepost's tables (it needs the owner's role, or MAINTAIN from "
                "PostgreSQL 17 on): between two autovacuums claims read past dead rows and get slower under load; "
                "grant it, or run `fencepost leader` with the owner's DSN"
            )
        return False

    def _look_what_is_left(self) -> None:
        """Say once per episode who keeps VACUUM from removing anything."""
        left = [table for table in self._wire.run(duties.vacuum_candidates(self._sql, self._after)) if table.allowed]
        if not left:
            self._kept = False
        elif not self._kept and (holder := self._wire.run(duties.horizon(self._sql))) is not None:
            who, seconds = holder
            if seconds is None or seconds >= _PATIENCE_S:
                self._kept = True
                log.warning(
                    "%s holds an old snapshot%s: no dead row that is younger can be removed, in no table of this database; "
                    "claims leave theirs behind, but the tables grow; end it, or bound such transactions",
                    who,
                    "" if seconds is None else f", for {seconds:.0f} s now",
                )
