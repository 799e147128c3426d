"""Leaves consumed rows behind while nobody can vacuum them: claims stay as fast as they were (storage: epochs)."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.duty.lane import Turn
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog
from fencepost.store import duties
from fencepost.store.wire import Wire

_SWEEP_S = 15.0


class Rotator:
    """Opens a new epoch of the claim's index when most of the old one is consumed, and closes what is empty.

    Between two vacuums, and all the while that an old snapshot keeps them from removing anything.
    """

    name = "rotator"

    def __init__(self, wire: Wire, sql: Catalog, settings: DutySettings, own: Callable[[], float]) -> None:
        self.period_s = settings.rotate_period
        self._wire, self._sql, self._settings, self._own = wire, sql, settings, own
        self._base = 0
        self._sweep_at = 0.0

    def run_turn(self) -> Turn:
        """One look at the statistics; now and then one for rows that were put where nobody reads."""
        due = self._own() >= self._sweep_at
        sweep = self._settings.batch if due else 0
        self._base = self._wire.run(duties.rotate(self._sql, self._settings.rotate_after, self._base, sweep))
        if due:
            self._sweep_at = self._own() + _SWEEP_S
        return Turn(0)
