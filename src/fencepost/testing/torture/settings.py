"""What a torture is made of: sizes, times and shares, and the file in which its processes read them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

SCHEMA = "fencepost_torture"
"""The schema of the tables; on somebody's own database nothing else is written to."""

LOG_SCHEMA = "fencepost_torture_log"
"""The schema of the trigger-written log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Seconds everywhere.

    The lease is short and a slow body longer than it, so that a frozen worker loses its jobs while they run. The load is
    below what the workers can do: everything must have ended a while after the faults have.
    """

    seed: int
    seconds: float = 60.0
    rate: float = 80.0  # jobs a second
    supervisors: int = 3
    fast_slots: int = 8
    slow_slots: int = 6
    thread_slots: int = 4
    process_slots: int = 1
    slow_share: float = 0.035
    thread_share: float = 0.05
    process_share: float = 0.01
    slow_least: float = 1.0
    slow_most: float = 4.0
    heartbeat: float = 0.4
    ttl: float = 2.0
    shutdown: float = 2.0
    max_attempts: int = 60
    max_crashes: int = 60
    faults_every: float = 0.5
    faults_at_once: int = 4

    @property
    def workers(self) -> int:
        """Worker processes."""
        return self.supervisors

    @property
    def drain_within(self) -> float:
        """How long the jobs that are left may take when the faults are over: more is left after many."""
        return 90.0 + self.seconds / 10

    @property
    def secret(self) -> str:
        """What bodies put into their errors; nobody may ever store or print it."""
        return f"tr0ub4dor-{self.seed}-Zq7"

    def write(self, folder: Path) -> None:
        """Where the processes of the torture find it."""
        (folder / "settings.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Settings:
        """What `write` wrote."""
        return cls(**json.loads((folder / "settings.json").read_text()))
