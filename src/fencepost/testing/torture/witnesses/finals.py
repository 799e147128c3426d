"""The witness of the end: the tables of jobs and runs as they are left, and the sink of the business effects."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fencepost.testing.torture.histories import EFFECTS, FSCK, JOBS, RUNS, SECRETS, TICKS, History, Line
from fencepost.testing.torture.verdict import Findings
from fencepost.testing.torture.witnesses.bodies import Bodies
from fencepost.testing.torture.witnesses.clients import Clients
from fencepost.testing.torture.witnesses.faults import Faults
from fencepost.testing.torture.witnesses.moves import UNSPENT, Moves

OPEN = frozenset(("queued", "running"))


class Final(NamedTuple):
    """One row of the final table of jobs."""

    id: int
    state: str
    run_count: int


class Finals:
    """What is left at the end."""

    def __init__(self, history: History, findings: Findings, moves: Moves) -> None:
        self.findings = findings
        self.jobs: dict[str, Final] = {}
        self.done: set[str] = set()
        self.rescues = self.refused = 0
        self._records: Counter[int] = Counter()
        limits = {name: history.setting(name, float("inf")) for name in ("max_attempts", "max_crashes")}
        for line in history.each(JOBS, "id", "job_id", "state", "run_count"):
            self._job(line, limits)
        seen: set[tuple[int, int]] = set()
        for line in history.each(RUNS, "id", "run_count", "how"):
            self._run(line, moves, seen)
        for line in history.each(EFFECTS, "job_id", "run", "first"):
            self._effect(line)
        for line in history.each(FSCK):
            self.findings.add("fsck", _of_row(line, moves), ", ".join(f"{k}: {v}" for k, v in line.items()))
        for line in history.each(SECRETS, "where", "found"):
            self.findings.add("P10", None, f"a secret of the corpus stands in {line['where']}")
        self.ticks = self._ticks(history)

    def judge(self, drained: bool, clients: Clients, bodies: Bodies, moves: Moves, faults: Faults) -> None:
        """Nothing is lost, nothing is left, nothing is there that nobody asked for, and the witnesses agree.

        A failover may forget a job that ran and whose enqueue was not answered yet; asked again, it finds its key taken.
        """
        for name in clients.acknowledged():
            if name not in self.jobs and not self._purged(name, moves):
                self.findings.add("P1", name, "acknowledged, and lost: there is no such job")
        for name, job in self.jobs.items():
            if drained and job.state in OPEN:
                self.findings.add("P1", name, f"still {job.state} when everything had ended")
            self._judge_records(name, job, moves)
            self._agree(name, job, moves)
            if job.state == "succeeded" and name not in self.done:
                self.findings.add("effects", name, "succeeded without its effect")
        for name in {*self.jobs, *moves.ids} - self.ticks:
            why = clients.unasked(name)
            if why is not None:
                self.findings.add(why[0], name, why[1])
        for name in {*bodies.starts, *self.done} - self.jobs.keys():
            if not self._purged(name, moves):
                rule, _ = clients.unasked(name) or ("P1", "")
                if rule == "P4" and faults.forgets(bodies.unclaimed.get(name)):
                    continue
                self.findings.add(rule, name, "ran, and there is no such job")

    def unlogged(self, moves: Moves) -> int:
        """How many jobs of the final table the database's log does not know."""
        return sum(job.id not in moves.jobs for job in self.jobs.values())

    def _job(self, line: Line, limits: dict[str, float]) -> None:
        name = line["job_id"]
        if name in self.jobs:
            self.findings.add("P5", name, f"two rows at the end, {self.jobs[name].id} and {line['id']}")
        self.jobs[name] = Final(line["id"], line["state"], line["run_count"])
        for counter, limit in (("attempts", limits["max_attempts"]), ("crashes", limits["max_crashes"])):
            if (line.get(counter) or 0) > limit:
                self.findings.add("P3", name, f"{line[counter]} {counter} of at most {limit:g}")

    def _run(self, line: Line, moves: Moves, seen: set[tuple[int, int]]) -> None:
        where, how = (line["id"], line["run_count"]), line["how"]
        self.rescues += how == "stale"
        self.refused += line.get("refused") or 0
        self._records[line["id"]] += 1
        if where in seen:
            self.findings.add("P3", moves.name(line["id"]), f"run {line['run_count']} has two records")
        seen.add(where)
        if how in UNSPENT and line.get("spent"):
            what = f"run {line['run_count']} was handed back ({how}) and its attempt spent"
            self.findings.add("P9", moves.name(line["id"]), what)
        run = moves.runs.get(where)
        if run is None and line["id"] in moves.jobs:
            self.findings.add(
                "P3", moves.name(line["id"]), f"run {line['run_count']} has a record and was never claimed"
            )
        elif run is not None and how != "running":
            run.how = how

    def _effect(self, line: Line) -> None:
        name = line["job_id"]
        if bool(line["first"]) == (name in self.done):
            what = "happened twice" if line["first"] else "was a repetition before it had happened"
            self.findings.add("effects", name, f"the effect of run {line['run']} {what}")
        self.done.add(name)

    def _judge_records(self, name: str, job: Final, moves: Moves) -> None:
        known = moves.jobs.get(job.id)
        if self._records[job.id] != job.run_count and not (known and known.aside):
            self.findings.add("P3", name, f"{job.run_count} runs, and {self._records[job.id]} records of them")

    def _agree(self, name: str, job: Final, moves: Moves) -> None:
        """The log and the table tell the same end."""
        known = moves.jobs.get(job.id)
        if known is None or known.row is None:
            return
        word = known.row.word if known.place == "outcome" else "running" if known.place == "running" else "queued"
        if known.job_id not in (None, name):
            self.findings.add("P5", name, f"the row {job.id} was made as {known.job_id}")
        elif word is not None and word != job.state:
            self.findings.add("P1", name, f"{job.state} in the table and {word} by the log")
        elif known.row.run is not None and known.row.run != job.run_count:
            self.findings.add("P2", name, f"run {job.run_count} in the table and run {known.row.run} by the log")

    def _purged(self, name: str, moves: Moves) -> bool:
        """Gone by retention: only what had ended may go."""
        job = moves.jobs.get(moves.ids.get(name, -1))
        return job is not None and job.deleted and job.ended

    def _ticks(self, history: History) -> set[str]:
        seen: dict[tuple[str, str], str | None] = {}
        for line in history.each(TICKS, "schedule", "instant", "job_id"):
            tick, name = (str(line["schedule"]), str(line["instant"])), line["job_id"]
            if tick in seen:
                self.findings.add("P7", name, f"the tick {tick[1]} of {tick[0]} has made {seen[tick]} already")
            seen[tick] = name
            if name is not None and name not in self.jobs:
                self.findings.add("P7", name, f"the job of the tick {tick[1]} of {tick[0]} does not exist")
        return {name for name in seen.values() if name is not None}


def _of_row(line: Line, moves: Moves) -> str | None:
    id_ = line.get("id")
    return moves.name(id_) if isinstance(id_, int) else None
