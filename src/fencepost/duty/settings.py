"""How often the leader does what, and how much at a time."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class DutySettings:
    """Seconds everywhere. The defaults are the contract's (SPEC, table of defaults).

    ``heartbeat_interval`` is the workers': after an interruption of the database, live workers get two of them before
    their leases are judged (SPEC C11). ``batch`` bounds every statement, ``vacuum_after`` is the number of dead rows
    from which a narrow table is vacuumed, ``rotate_after`` the number from which claims leave them behind.
    """

    lease: float = 10.0
    heartbeat_interval: float = 5.0
    reaper_period: float = 1.0
    promoter_period: float = 1.0
    sweeper_period: float = 1.0
    gate_period: float = 30.0
    pruner_period: float = 60.0
    vacuum_period: float = 5.0
    rotate_period: float = 0.5
    worker_row_age: float = 86_400.0
    batch: int = 500
    vacuum_after: int = 5_000
    rotate_after: int = 10_000

    def __post_init__(self) -> None:
        for name in (
            "lease", "heartbeat_interval", "reaper_period", "promoter_period", "sweeper_period", "gate_period",
            "pruner_period", "vacuum_period", "rotate_period", "worker_row_age",
        ):  # fmt: skip
            value = getattr(self, name)
            if not 0 < value < 10_000_000:
                raise UsageError(f"{name} must be more than 0 seconds, not {value}")
        if self.lease < 0.5:
            raise UsageError(f"lease must be 0.5 seconds or more, not {self.lease}: renewals would not come in time")
        if not 1 <= self.batch <= 10_000:
            raise UsageError(f"batch must be between 1 and 10000, not {self.batch}")

    @property
    def renew_period(self) -> float:
        """How often the leader renews its lease."""
        return self.lease / 3

    @property
    def follow_period(self) -> float:
        """How often the others look whether there is a leader."""
        return min(self.lease / 5, 2.0)
