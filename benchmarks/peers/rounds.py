"""Every system once in every round: a slow minute of the machine hits all of them alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.bench.figures import Spread, ratios

OURS = "fencepost"

Figures = Mapping[str, float]


@dataclass(slots=True)
class System:
    """One row of a table. A system that fails once is not asked again, and its row says why."""

    name: str
    read: Callable[[], Figures]
    found: list[Figures] = field(default_factory=list)
    failed: str | None = None

    def ask(self) -> None:
        """One reading more."""
        if self.failed is not None:
            return
        try:
            self.found.append(self.read())
        except Exception as error:  # noqa: BLE001 - whatever a peer does, the others are measured
            self.failed = f"{type(error).__name__}: {error}"

    def of(self, what: str) -> list[float]:
        """One figure, round by round."""
        return [figures[what] for figures in self.found if what in figures]


@dataclass(slots=True)
class Discipline:
    """One table: its systems and the figure that they are compared by."""

    name: str
    figure: str
    systems: Sequence[System]

    def as_json(self, digits: int = 2) -> dict[str, Any]:
        """Median, least and most of every figure, and the ratio to fencepost's in the same round."""
        ours = next(system for system in self.systems if system.name == OURS).of(self.figure)
        answer: dict[str, Any] = {}
        for system in self.systems:
            mine: dict[str, Any] = {"rounds": len(system.found)}
            for what in dict.fromkeys(name for figures in system.found for name in figures):
                mine[what] = Spread.of(system.of(what)).rounded(digits)
            both = min(len(ours), len(system.found))
            if both:
                mine["to_fencepost"] = ratios(system.of(self.figure)[:both], ours[:both]).rounded(3)
            mine["readings"] = [dict(figures) for figures in system.found]
            if system.failed:
                mine["failed"] = system.failed
            answer[system.name] = mine
        return answer


def measure(disciplines: Sequence[Discipline], rounds: int) -> None:
    """Progress goes to stderr, line by line."""
    for number in range(1, rounds + 1):
        for discipline in disciplines:
            for system in discipline.systems:
                system.ask()
                said = system.failed or f"{system.found[-1][discipline.figure]:,.2f}"
                print(
                    f"round {number} of {rounds}: {discipline.name}: {system.name}: {said}", file=sys.stderr, flush=True
                )
