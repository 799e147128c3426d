"""The clients' witness: what was asked for, what was answered, and what may have been lost in between."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple

from fencepost.testing.torture.histories import ENQUEUES, History, Line
from fencepost.testing.torture.verdict import Findings
from fencepost.testing.torture.witnesses.moments import Moments
from fencepost.testing.torture.witnesses.moves import Moves

MADE = frozenset(("created", "resubmitted"))
SEEN = frozenset(("exists", "deduplicated"))


class Asked:
    """One job_id, over all calls that named it."""

    __slots__ = ("acked", "asked", "id", "may_be", "seen", "skipped", "undone")

    def __init__(self, t: float) -> None:
        self.asked = t
        self.acked = inf  # the first answer that says the row is there
        self.id: int | None = None
        self.may_be = self.seen = self.skipped = False
        self.undone: str | None = None  # how a call that made no row ended


@dataclass(slots=True)
class Call:
    """One call of enqueue; ``fate`` stays "open" where no line tells its end."""

    asked: float
    jobs: list[str]
    answered: float = inf
    answers: list[Line] = field(default_factory=list)
    fate: str = "open"


class Skip(NamedTuple):
    """An answer that names who has the key."""

    job_id: str
    holder: str | None
    asked: float
    answered: float


class Clients:
    """All calls of all clients, settled."""

    def __init__(self, history: History, findings: Findings) -> None:
        self.findings = findings
        self.jobs: dict[str, Asked] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        self.skips: list[Skip] = []
        self._made: defaultdict[str, int] = defaultdict(int)
        for path in history.files(ENQUEUES):
            for call in self._calls(history, path):
                self._settle(call)

    def acknowledged(self) -> list[str]:
        """The jobs of which a client was told that its call had made them."""
        return list(self._made)

    def share(self) -> float:
        """The acknowledged part of all jobs that could have been: not those only skipped or rolled back on purpose."""
        could = sum(
            one.may_be or not (one.skipped or one.seen or one.undone == "rolled_back") for one in self.jobs.values()
        )
        return len(self._made) / could if could else 0.0

    def bound(self, moves: Moves, moments: Moments) -> None:
        """A row was written after the first call that named it and before the first answer about it."""
        for name, asked in self.jobs.items():
            job = moves.jobs.get(moves.ids.get(name, -1))
            if job is not None and job.created is not None:
                moments.not_before(job.created, asked.asked)
                if asked.acked < inf and not moves.purged[name]:
                    moments.not_after(job.created, asked.acked)

    def judge(self, moves: Moves, moments: Moments, slack: float) -> None:
        """Answers against the log: ids, rows that should not be there, holders that held. Moments are settled."""
        for name, asked in self.jobs.items():
            id_ = moves.ids.get(name)
            if self._made.get(name, 0) > 1 + moves.purged[name]:
                self.findings.add("P5", name, f"answered created by {self._made[name]} calls")
            if asked.id is not None and id_ is not None and asked.id != id_ and not moves.purged[name]:
                self.findings.add("P5", name, f"answered with id {asked.id}, and the row is {id_}")
            if asked.seen and id_ is None:
                self.findings.add("P5", name, "answered exists, and there is no such row")
        for skip in self.skips:
            self._judge_skip(skip, moves, moments, slack)

    def unasked(self, name: str) -> tuple[str, str] | None:
        """Why a row of this name must not exist, as rule and sentence; None where it may."""
        asked = self.jobs.get(name)
        if asked is None:
            return "P5", "exists, and nobody asked for it"
        if asked.may_be:
            return None
        if asked.undone is not None:
            return "P8", f"exists, and every call that could have made it was {asked.undone.replace('_', ' ')}"
        if asked.skipped:
            return "P4", "exists, and was only ever skipped in favour of another"
        return "P5", "exists, and no call that could have made it"

    def _calls(self, history: History, path: Path) -> list[Call]:
        calls: dict[int, Call] = {}
        for number, line in enumerate(history.read(path, "t", "ev", "op", may_be_cut=True), 1):
            what, op = line["ev"], line["op"]
            if what == "asked":
                calls[op] = Call(line["t"], [job["job_id"] for job in line["jobs"]])
                for job in line["jobs"]:
                    self._ask(job, line["t"])
            elif op not in calls:
                history.note(path.name, number, f"the end of call {op}, which never began")
            elif what == "answered":
                calls[op].answered, calls[op].answers, calls[op].fate = line["t"], line["answers"], what
            else:
                calls[op].fate = what
        return list(calls.values())

    def _ask(self, job: Line, t: float) -> None:
        name = job["job_id"]
        known = self.jobs.get(name)
        if known is None:
            self.jobs[name] = Asked(t)
        elif t < known.asked:
            known.asked = t
        if job.get("key") is not None:
            self.keys[name] = (str(job.get("task")), job["key"])

    def _settle(self, call: Call) -> None:
        if call.fate == "answered":
            if [one["job_id"] for one in call.answers] != call.jobs:
                self.findings.add("P5", call.jobs[0] if call.jobs else None, "not one answer for each job, in order")
            for answer in call.answers:
                self._answer(call, answer)
            return
        for name in call.jobs:
            asked = self.jobs[name]
            if call.fate in {"rolled_back", "refused"}:
                asked.undone = call.fate
            else:
                asked.may_be = True

    def _answer(self, call: Call, answer: Line) -> None:
        name, told = answer["job_id"], answer["answer"]
        asked = self.jobs.get(name)
        if asked is None:  # an answer about a job that the call did not name: told above
            return
        if told in MADE or answer.get("unsure"):  # unsure: sent twice, and the first may have made it
            asked.may_be = True
            self._made[name] += told == "created"
        asked.seen = asked.seen or told in SEEN
        if told in MADE or told in SEEN:
            asked.acked = min(asked.acked, call.answered)
            asked.id = answer.get("id") if answer.get("id") is not None else asked.id
        elif told == "skipped":
            asked.skipped = True
            self.skips.append(Skip(name, answer.get("holder"), call.asked, call.answered))

    def _judge_skip(self, skip: Skip, moves: Moves, moments: Moments, slack: float) -> None:
        key = self.keys.get(skip.job_id)
        if skip.holder is None or key is None:
            self.findings.add("P4", skip.job_id, f"skipped without a {'holder' if skip.holder is None else 'key'}")
            return
        id_ = moves.ids.get(skip.holder)
        spans = [] if id_ is None else [one for one in moves.held.of(id_) if one.what == key]
        for span in spans:
            began_late = moments.earliest(span.begin) > skip.answered
            if not began_late and (span.end is None or moments.latest(span.end) + slack >= skip.asked):
                return
        how = "never had the key" if not spans else "did not have the key during the call"
        self.findings.add("P4", skip.job_id, f"skipped in favour of {skip.holder}, which {how}")
