"""Signs of life of another process, read from outside it: nothing that runs in it can fake or delay them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

LOOK_S = 0.25
"""The longest time between two looks."""


def cpu_ns(pid: int) -> int:
    """CPU time of another process by its clock id, in nanoseconds; 0 where that is not possible.

    Even waiting for the GIL costs some; a stopped process uses exactly none. /proc/PID/stat moves in steps of 10 ms and
    would miss an idle one.
    """
    if not sys.platform.startswith("linux"):  # pragma: no cover - other signs decide there; untested
        return 0
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Silence:
    """Which stillness of a worker process means that the lease of a run must be taken for lost.

    ``for_s``: it has not lived for so many seconds. ``until_ns``: and this moment has come (`board.boot_ns`; 0: always).
    """

    for_s: float
    until_ns: int = 0

    @property
    def look_s(self) -> float:
        """How often to look."""
        return min(LOOK_S, self.for_s / 8)

    @property
    def grace_s(self) -> float:
        """How long before its end the body is told."""
        return min(1.0, self.for_s / 4)

    def nears(self, still_s: float, now_ns: int) -> bool:
        """Whether it is time to tell the body: ``still_s`` seconds without life, at this moment."""
        return still_s >= self.for_s - self.grace_s and now_ns >= self.until_ns - int(self.grace_s * 1e9)


class Stillness:
    """How long a process has shown no life, in our own looks.

    A look counts for at most `LOOK_S`, whatever our clock says: where we stood still ourselves, as on a paused machine,
    we have not looked, and nobody is blamed for it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.begin()

    def begin(self) -> None:
        """Count from here."""
        self._cpu, self._looked = cpu_ns(self._pid), time.monotonic()
        self.seconds = 0.0

    def look(self) -> float:
        """Look once; the seconds since it last moved, 0.0 where that cannot be told."""
        cpu, now = cpu_ns(self._pid), time.monotonic()
        moved = cpu != self._cpu or not cpu
        self.seconds = 0.0 if moved else self.seconds + min(LOOK_S, now - self._looked)
        self._cpu, self._looked = cpu, now
        return self.seconds
