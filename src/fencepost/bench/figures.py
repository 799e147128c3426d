"""Readings of several rounds as figures: the median, and how far the rounds lay apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most of some readings."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, readings: Iterable[float]) -> Spread:
        """Of one reading or more."""
        values = list(readings)
        return cls(statistics.median(values), min(values), max(values))

    def rounded(self, digits: int = 0) -> dict[str, float]:
        """For JSON."""
        return {
            "median": _round(self.median, digits),
            "least": _round(self.least, digits),
            "most": _round(self.most, digits),
        }

    def edges(self, digits: int = 0) -> list[float]:
        """The least and the most, for JSON."""
        return [_round(self.least, digits), _round(self.most, digits)]


def ratios(mine: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Mine over theirs, taken within each round: a slow minute of the machine hits both."""
    return Spread.of(one / other for one, other in zip(mine, theirs, strict=True))


def percentile(readings: Iterable[float], share: float) -> float:
    """The least reading that a ``share`` (0 to 1) of all do not exceed: always one of them, never between two."""
    values = sorted(readings)
    rank = math.ceil(round(share * len(values), 9))  # 0.07 * 100 is a little more than 7
    return values[max(0, rank - 1)]


def _round(value: float, digits: int) -> float:
    return round(value, digits) if digits else float(round(value))
