"""The workers' witness: what the bodies of the jobs did, held against the leases of the database's log."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import inf
from pathlib import Path

from fencepost.testing.torture.histories import WORKERS, History, Line
from fencepost.testing.torture.verdict import Findings
from fencepost.testing.torture.witnesses.faults import Faults
from fencepost.testing.torture.witnesses.moments import Moments
from fencepost.testing.torture.witnesses.moves import TAKEN, Moves, Run

SETTLED = frozenset(("succeeded", "failed", "skipped", "retry"))
"""Ends of a run that its own body brings about."""
GRACE = 0.5
"""A body may begin so many seconds after the signal to stop."""


class Bodies:
    """All files of the workers. Reading fills in the runs that the log knows."""

    def __init__(
        self, history: History, moves: Moves, findings: Findings, max_attempts: float, *, forgetful: bool = False
    ) -> None:
        self.moves, self.findings, self.max_attempts = moves, findings, max_attempts
        self.forgetful = forgetful
        self.runs: dict[tuple[str, int], Run] = {}
        self.starts: Counter[str] = Counter()
        self.unclaimed: dict[str, float] = {}
        """When the last body of a job began whose claim is in no log, because it was forgotten."""
        self.last_seen: defaultdict[tuple[int | None, int | None], float] = defaultdict(lambda: -inf)
        """By pid and token: in a long run the system gives a pid again, a token is never used again."""
        self._begun_by: defaultdict[int, list[tuple[float, str]]] = defaultdict(list)
        early: list[Line] = []
        for path in history.files(WORKERS):
            self._read(history, path, early)
        for line in early:
            self._happened(self.runs.get((line["job_id"], line["run"])), line)

    @property
    def reruns(self) -> int:
        """Starts beyond the first of their job."""
        return sum(self.starts.values()) - len(self.starts)

    def bound(self, moments: Moments) -> None:
        """A run was claimed before its body began. Not where claims were forgotten: the one in the log may be a later one."""
        if self.forgetful:
            return
        for run in self.runs.values():
            if run.claimed is not None and run.started is not None:
                moments.not_after(run.claimed, run.started)

    def judge(self, moments: Moments, faults: Faults, ttl: float) -> None:
        """Leases against bodies; moments are settled and every run says how it ended."""
        for run in self.runs.values():
            if run.gone is None:
                continue
            if run.how in TAKEN:
                self._judge_taken(run, faults.thawed(run.body_pid, moments.latest(run.gone), ttl) + ttl)
            elif run.how in SETTLED:
                self._judge_settled(run, moments.latest(run.gone))
        for (id_, number), run in self.moves.runs.items():
            if run.how == "succeeded" and run.started is None:
                self.findings.add("P2", self.moves.name(id_), f"run {number} succeeded, and its body never began")

    def judge_stops(self, faults: Faults, limit: float) -> None:
        """After the signal nothing begins, and the process goes in time."""
        for stop in faults.stops:
            gone = inf if stop["gone"] is None else stop["gone"]
            for pid in (stop["pid"], *stop["pids"]):
                until = max(faults.thawed(one, stop["t"], GRACE) for one in (stop["pid"], pid)) + GRACE
                for t, job_id in self._begun_by.get(pid, ()):
                    if until < t <= gone:
                        late = t - stop["t"]
                        self.findings.add("P9", job_id, f"began in {pid}, {late:.2f} s after the signal to stop")
            allowed = max(faults.thawed(pid, stop["t"], limit) for pid in (stop["pid"], *stop["pids"])) + limit
            if gone > allowed or gone == inf:
                after = "never" if gone == inf else f"{gone - stop['t']:.1f} s after the signal"
                self.findings.add("P9", None, f"{stop['pid']} was told to stop and went {after}")

    def _read(self, history: History, path: Path, early: list[Line]) -> None:
        mine: dict[tuple[str, int], Run] = {}
        for line in history.read(path, "t", "ev", "pid", "job_id", "run", may_be_cut=True):
            pid, where = line["pid"], (line["job_id"], line["run"])
            if line["ev"] == "start":
                mine[where] = self._start(line)
            if where in mine:
                process = pid, mine[where].token
                self.last_seen[process] = max(self.last_seen[process], line["t"])
            if line["ev"] == "start":
                continue
            if where in mine:
                self._happened(mine[where], line)
            else:  # told by the process above, whose file may come first
                early.append(line)

    def _start(self, line: Line) -> Run:
        name, number, token = line["job_id"], line["run"], line.get("token")
        self.starts[name] += 1
        self._begun_by[line["pid"]].append((line["t"], name))
        run = self.moves.runs.get((line.get("id", -1), number))
        if self.forgetful and (run is None or run.token != token or self.moves.name(run.id) != name):
            self.unclaimed[name] = line["t"]
            return Run(line.get("id", -1), number, token, line.get("attempt"), None)  # its claim never was
        if run is None:
            if line.get("id") in self.moves.jobs:  # what the log does not know at all is judged at the end
                self.findings.add("P3", name, f"run {number} began, and nobody had claimed it")
            run = Run(line.get("id", -1), number, token, line.get("attempt"), None)
            self.moves.runs[run.id, number] = run
        elif self.forgetful and run.ended is not None:  # it was over, and the database forgot that as well
            run.ended = run.end = run.told = run.effect = None
        elif run.started is not None:
            again = "in the same process" if run.body_pid == line["pid"] else f"in {run.body_pid} and in {line['pid']}"
            self.findings.add("P3", name, f"run {number} began twice, {again}")
            return run
        elif token is not None and token != run.token:
            self.findings.add("P3", name, f"run {number} began under token {token} and was claimed under {run.token}")
        attempt = line.get("attempt")
        if attempt is not None and attempt > self.max_attempts:
            self.findings.add("P3", name, f"run {number} began as attempt {attempt} of at most {self.max_attempts:g}")
        run.job_id, run.body_pid, run.started = name, line["pid"], line["t"]
        self.runs[name, number] = run
        return run

    def _happened(self, run: Run | None, line: Line) -> None:
        what, t = line["ev"], line["t"]
        if run is None:
            self.findings.add("P3", line["job_id"], f"run {line['run']} had an {what} and never began")
        elif what == "end":
            run.ended, run.end = t, line.get("how")
        elif what == "told":
            run.told = t if run.told is None else min(run.told, t)
        elif what == "effect":
            run.effect = t if run.effect is None else max(run.effect, t)

    def _judge_taken(self, run: Run, deadline: float) -> None:
        """A body whose lease was taken stops or is told: before, or as soon as its process can act again."""
        if run.effect is not None and run.effect > deadline:
            late = run.effect - deadline
            self.findings.add(
                "P11", run.job_id, f"run {run.run} had an effect {late:.2f} s after it had to know better"
            )
        told = run.told is not None and run.told <= deadline
        over = run.ended is not None and run.ended <= deadline
        lives = self.last_seen[run.body_pid, run.token] > deadline
        if lives and not told and not over:
            self.findings.add("P11", run.job_id, f"run {run.run} lost its lease and was not told in time")

    def _judge_settled(self, run: Run, written: float) -> None:
        """What is written of a run is what its own body did, and was written when that was over.

        A late write of an older run that is taken for one of this run looks right in the database; here it does not.
        """
        if run.how == "succeeded" and run.end != "returned":
            seen = "had not ended" if run.end is None else run.end
            self.findings.add("P2", run.job_id, f"run {run.run} succeeded, and its body {seen}")
        elif run.end in {"returned", "raised"} and run.ended is not None and run.ended > written:
            early = run.ended - written
            self.findings.add(
                "P2", run.job_id, f"{run.how} of run {run.run} was written {early:.2f} s before its body ended"
            )
