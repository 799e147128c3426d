"""The nemesis' witness: what it did to whom, and the graceful stops that it asked for."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import inf

from fencepost.testing.torture.histories import FAULTS, STOPS, History, Line

FREEZES = re.compile(r"freez|froz|sigstop|suspend", re.IGNORECASE)
FORGETS = re.compile(r"forget", re.IGNORECASE)
"""A failover to a standby that had not heard of the last claims: they are in nobody's log, and may be made again."""
NUMBER = re.compile(r"\d+")
NOBODY = ["-"]
"""``running`` of a fault that can meet no running job, such as one that freezes the leader."""
STRETCH = 50
"""So many tries in a row, one after the other, are looked at together: did they meet running jobs?"""


class Faults:
    """All faults that really happened.

    A process stands still during a fault whose ``frozen`` lists its pid or, without that field, whose kind speaks of
    freezing and whose target names the pid.
    """

    def __init__(self, history: History) -> None:
        self.counts: Counter[str] = Counter()
        self.on_running: Counter[str] = Counter()
        self.excused: set[str] = set()
        self.longest = 0.0
        self._frozen: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
        self._forgetting: list[tuple[float, float]] = []
        self._tries: list[tuple[float, bool]] = []
        for line in history.each(FAULTS, "t", "kind", "target", "landed", "running"):
            if line["running"] != NOBODY:
                self._tries.append((line["t"], bool(line["landed"] and line["running"])))
            if line["landed"]:
                self._landed(line)
        for times in self._frozen.values():
            times.sort()
        self._tries.sort()
        self.stops = list(history.each(STOPS, "t", "pid", "pids", "gone"))

    @property
    def forgetful(self) -> bool:
        """Whether the database has forgotten what it had said."""
        return bool(self._forgetting)

    def forgets(self, moment: float | None) -> bool:
        """Whether what happened then may have been forgotten: by a failover that was under way."""
        return moment is not None and any(begin <= moment <= end for begin, end in self._forgetting)

    def stretches(self) -> Iterator[tuple[float, float, float]]:
        """First and last moment of each stretch of tries, and the share of it that met a running job.

        A nemesis that has gone blind strikes nobody; the totals of a long run may still look well.
        """
        for n in range(0, len(self._tries) - STRETCH + 1, STRETCH):
            last = n + 2 * STRETCH > len(self._tries)  # the rest belongs to the last one
            part = self._tries[n:] if last else self._tries[n : n + STRETCH]
            yield part[0][0], part[-1][0], sum(met for _, met in part) / len(part)

    def thawed(self, pid: int | None, since: float, within: float) -> float:
        """``since``, or the end of what kept the process from acting at that time or until ``within`` seconds later."""
        moment = since
        for begin, end in self._frozen.get(pid or 0, ()):
            if begin <= moment + within and end > moment:
                moment = end
        return moment

    def _landed(self, line: Line) -> None:
        kind, begin = str(line["kind"]), line["t"]
        until = line.get("until")
        end = inf if until is None else until
        self.counts[kind] += 1
        if FORGETS.search(kind):
            self._forgetting.append((begin, end))
        if line["running"] == NOBODY:
            self.excused.add(kind)
        elif line["running"]:
            self.on_running[kind] += 1
        if end < inf:
            self.longest = max(self.longest, end - begin)
        frozen = line.get("frozen")
        if frozen is None and FREEZES.search(kind):
            frozen = NUMBER.findall(str(line["target"]))
        for pid in frozen or ():
            self._frozen[int(pid)].append((begin, end))
