"""Things to measure, in turn, round after round: a slow minute of the machine hits all of them alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.bench.figures import Spread, ratios


@dataclass(frozen=True, slots=True)
class Reading:
    """What one side did in one round. CPU seconds of server and workers, where they can be known."""

    jobs: int
    seconds: float
    cpu_s: float | None = None

    @property
    def per_s(self) -> float:
        """Jobs per second."""
        return self.jobs / self.seconds

    @property
    def cpu_s_per_10k(self) -> float | None:
        """CPU seconds of 10,000 jobs."""
        return None if self.cpu_s is None else self.cpu_s / self.jobs * 10_000


@dataclass(slots=True)
class Side:
    """One thing to measure. ``read`` prepares what it needs, outside of the clock, and measures once."""

    name: str
    read: Callable[[], Reading]
    readings: list[Reading] = field(default_factory=list)

    @property
    def rates(self) -> list[float]:
        """Jobs per second, round by round."""
        return [reading.per_s for reading in self.readings]

    @property
    def rate(self) -> Spread:
        """Jobs per second over the rounds."""
        return Spread.of(self.rates)

    @property
    def cpu(self) -> Spread | None:
        """CPU seconds per 10,000 jobs over the rounds; None if unknown."""
        known = [cpu for reading in self.readings if (cpu := reading.cpu_s_per_10k) is not None]
        return Spread.of(known) if known else None

    def over(self, other: Side) -> Spread:
        """Its rates over another side's, round by round."""
        return ratios(self.rates, other.rates)

    def as_json(self, against: Side | None = None) -> dict[str, Any]:
        """Its figures."""
        found: dict[str, Any] = {"jobs_per_s": self.rate.rounded()}
        if self.cpu is not None:
            found["cpu_s_per_10k"] = self.cpu.rounded(3)
        if against is not None and against is not self:
            found[f"ratio_to_{against.name}"] = self.over(against).rounded(3)
        return found


def measure(sides: Sequence[Side], rounds: int) -> None:
    """Every side once a round; progress goes to stderr."""
    for number in range(1, rounds + 1):
        said = []
        for side in sides:
            reading = side.read()
            side.readings.append(reading)
            said.append(f"{side.name} {reading.per_s:,.0f}/s")
        print(f"round {number} of {rounds}: {', '.join(said)}", file=sys.stderr, flush=True)
