"""When the database wrote a line of its log, on the clock of the processes.

The server's clock may jump, so it is not asked. But the lines are numbered in the order in which they were written, and
some of them stand in a fixed order to what a process saw: a job's row was written after somebody had asked for it and
before he was answered; a run was claimed before its body began. These hold whatever the library does wrong. A line then
lies between the latest lower bound before it and the earliest upper bound behind it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import inf


class Moments:
    """Bounds for every line of the log, from bounds for some. Collect first, then ``settle``, then ask."""

    def __init__(self) -> None:
        self._after: list[tuple[int, float]] = []
        self._before: list[tuple[int, float]] = []
        self._lower = (array("q"), array("d"))
        self._upper = (array("q"), array("d"))

    def not_before(self, n: int, t: float) -> None:
        """Line ``n`` was written at ``t`` or later."""
        self._after.append((n, t))

    def not_after(self, n: int, t: float) -> None:
        """Line ``n`` was written at ``t`` or earlier."""
        self._before.append((n, t))

    def settle(self) -> None:
        """All bounds are known; from here on they may be asked for."""
        self._after.sort()
        self._before.sort()
        rising = accumulate((t for _, t in self._after), max)
        self._lower = (array("q", (n for n, _ in self._after)), array("d", rising))
        falling = list(accumulate((t for _, t in reversed(self._before)), min))
        self._upper = (array("q", (n for n, _ in self._before)), array("d", reversed(falling)))
        self._after, self._before = [], []

    def earliest(self, n: int) -> float:
        """Line ``n`` was surely not written before this moment; -inf where nothing is known."""
        place = bisect_right(self._lower[0], n)
        return self._lower[1][place - 1] if place else -inf

    def latest(self, n: int) -> float:
        """Line ``n`` was surely written by this moment; inf where nothing is known."""
        place = bisect_left(self._upper[0], n)
        return self._upper[1][place] if place < len(self._upper[0]) else inf
