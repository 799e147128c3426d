"""What a check found, in numbers and sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from fencepost.testing.torture.witnesses.moments import Moments

SHOWN = 100
"""So many violations are told one by one; all are counted."""


class Violation(NamedTuple):
    """A promise that was broken: its rule, the job (empty where no single job is meant), what was seen."""

    rule: str
    job_id: str
    what: str


@dataclass
class Verdict:
    """The result of one check.

    ``jobs`` are those whose enqueue was acknowledged. ``faults`` counts what really happened, by kind, and
    ``faults_on_running`` the part of it that met a running job. ``violations`` are at most 100, of every rule that was
    broken at least one; ``violation_count`` and ``rules`` (by rule) count all.
    """

    jobs: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    faults_on_running: dict[str, int] = field(default_factory=dict)
    rescues: int = 0
    reruns: int = 0
    refused_late_writes: int = 0
    violations: list[Violation] = field(default_factory=list)
    violation_count: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    vacuous: list[str] = field(default_factory=list)
    inconclusive: list[str] = field(default_factory=list)
    moments: Moments = field(default_factory=Moments, repr=False, compare=False)
    """When the database wrote its lines, for the report; no part of the JSON."""

    @property
    def exit(self) -> int:
        """0: everything held. 1: a promise was broken. 2: nothing was broken, but the run shows too little."""
        if self.violation_count:
            return 1
        return 2 if self.vacuous or self.inconclusive else 0

    def to_json(self) -> dict[str, Any]:
        """The verdict as values that ``json.dumps`` takes."""
        return {
            "jobs": self.jobs,
            "faults": self.faults,
            "faults_on_running": self.faults_on_running,
            "rescues": self.rescues,
            "reruns": self.reruns,
            "refused_late_writes": self.refused_late_writes,
            "violations": [one._asdict() for one in self.violations],
            "violation_count": self.violation_count,
            "rules": self.rules,
            "vacuous": self.vacuous,
            "inconclusive": self.inconclusive,
            "exit": self.exit,
        }


class Findings:
    """Collects violations: counts all, keeps enough of each rule."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._kept: defaultdict[str, list[Violation]] = defaultdict(list)

    def add(self, rule: str, job_id: str | None, what: str) -> None:
        """A violation was seen; the same sentence about the same job counts once."""
        kept, one = self._kept[rule], Violation(rule, job_id or "", what)
        if len(kept) < SHOWN and one in kept:
            return
        self.counts[rule] += 1
        if len(kept) < SHOWN:
            kept.append(one)

    def shown(self) -> list[Violation]:
        """At most ``SHOWN``, in turn one of each rule: a rule that is broken a thousand times hides no other."""
        turns = zip_longest(*(self._kept[rule] for rule in sorted(self._kept)))
        return [one for one in chain.from_iterable(turns) if one is not None][:SHOWN]
