"""CPU seconds of process trees, from /proc; where there is none (not Linux), nothing is said."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_PROC = Path("/proc")


def cpu_s(root: int) -> float | None:
    """Seconds that a process, all that it started, and those of them that have ended have spent; None if unknown."""
    if not _PROC.joinpath(str(root), "stat").exists():
        return None
    tick = os.sysconf("SC_CLK_TCK")
    spent: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            children.setdefault(int(words[1]), []).append(pid)
            spent[pid] = sum(map(int, words[11:15]))  # user and system, its own and those of children it has waited for
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        total += spent.get(pid, 0)
        todo += children.get(pid, [])
    return total / tick


class Meter:
    """What some process trees spend from now on, and with ``own`` this process itself, without its children.

    A root that is None is a process that nobody can look at, such as a server elsewhere: then nothing is known.
    """

    def __init__(self, *roots: int | None, own: bool = False) -> None:
        self._roots, self._own = roots, own
        self._before = self._total()

    def spent_s(self) -> float | None:
        """CPU seconds since the beginning; None if unknown."""
        now = self._total()
        return None if now is None or self._before is None else now - self._before

    def _total(self) -> float | None:
        total = time.process_time() if self._own else 0.0
        for root in self._roots:
            spent = None if root is None else cpu_s(root)
            if spent is None:
                return None
            total += spent
        return total
