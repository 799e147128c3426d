"""Signs of life of another process, read from outside it: nothing that runs in it can fake or delay them."""

from __future__ import annotations

import sys
import time


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


class Stillness:
    """How long a process has shown no life, in our own looks.

    A look counts for at most ``most_s``, whatever our clock says: where we stood still ourselves, as on a paused machine,
    we have not looked, and nobody is blamed for it.
    """

    def __init__(self, pid: int, *, most_s: float) -> None:
        self._pid, self._most = pid, most_s
        self.begin()

    def begin(self) -> None:
        """Count from here."""
        self._cpu, self._looked = cpu_ns(self._pid), time.monotonic()
        self.seconds = 0.0

    def look(self) -> float:
        """Look once; the seconds since it last moved, 0.0 where that cannot be told."""
        cpu, now = cpu_ns(self._pid), time.monotonic()
        moved = cpu != self._cpu or not cpu
        self.seconds = 0.0 if moved else self.seconds + min(self._most, now - self._looked)
        self._cpu, self._looked = cpu, now
        return self.seconds
