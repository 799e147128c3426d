"""What happened when: the whole run in seconds, and the offending jobs line by line, as all witnesses saw them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from fencepost.testing.torture.histories import DATABASE, EFFECTS, ENQUEUES, FAULTS, JOBS, RUNS, WORKERS, History, Line
from fencepost.testing.torture.witnesses.moments import Moments

MOST = 300
"""Lines of one job's timeline that are shown."""


@dataclass(slots=True)
class Entry:
    """One line of a timeline; ``n`` is the number of a line of the database's log."""

    t: float
    who: str
    what: str
    n: int = 0
    times: int = 1


@dataclass(slots=True)
class Fault:
    """One fault that happened, for the chart."""

    t: float
    kind: str
    met: bool


@dataclass
class Timelines:
    """All that the report draws. Times are seconds from the start of the run."""

    meta: Line
    seconds: float = 1.0
    starts: Counter[int] = field(default_factory=Counter)
    rescues: Counter[int] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    jobs: dict[str, list[Entry]] = field(default_factory=dict)


class Reader:
    """Reads a history once more, for the jobs of these names."""

    def __init__(self, folder: Path, names: list[str], moments: Moments) -> None:
        self._history, self._moments = History(folder), moments
        self._ids: dict[int, str] = {}
        self.told = Timelines(self._history.meta, jobs={name: [] for name in names})
        started = self.told.meta.get("started")
        self._start = float(started) if isinstance(started, int | float) else None

    def read(self) -> Timelines:
        """The timelines, in order."""
        ends = list(self._ends())
        for path in self._history.files(ENQUEUES):
            self._calls(path)
        for path in self._history.files(WORKERS):
            self._bodies(path)
        for line in self._history.each(EFFECTS, "t", "job_id", "run"):
            seen = "its effect happened" if line.get("first") else "its effect had happened before"
            self._add(line["job_id"], line["t"], "sink", f"run {line['run']}: {seen}")
        self._faults()
        self._log()
        for entries in self.told.jobs.values():
            entries.sort(key=lambda entry: (entry.t, entry.n == 0, entry.n))  # the log says "by then": it goes first
        for name, what in ends:
            self.told.jobs[name].append(Entry(self.told.seconds, "end", what))
        return self.told

    def _since(self, t: float) -> float:
        if self._start is None:
            self._start = t
        since = t - self._start
        self.told.seconds = max(self.told.seconds, since)
        return since

    def _add(self, name: str, t: float, who: str, what: str) -> None:
        entries = self.told.jobs.get(name)
        if entries is not None:
            entries.append(Entry(self._since(t), who, what))

    def _ends(self) -> Iterator[tuple[str, str]]:
        for line in self._history.each(JOBS, "id", "job_id", "state", "run_count"):
            if line["job_id"] in self.told.jobs:
                self._ids[line["id"]] = line["job_id"]
                counts = ", ".join(
                    f"{name} {line[name]}" for name in ("attempts", "crashes", "snoozes") if name in line
                )
                yield line["job_id"], f"job {line['id']}: {line['state']} after {line['run_count']} runs; {counts}"
        for line in self._history.each(RUNS, "id", "run_count", "how"):
            if line["id"] in self._ids:
                spent = "spent" if line.get("spent") else "not spent"
                what = f"run {line['run_count']} (token {line.get('token')}): {line['how']}, attempt {spent}"
                yield self._ids[line["id"]], f"{what}, {line.get('refused') or 0} late writes refused"

    def _calls(self, path: Path) -> None:
        mine: dict[int, list[str]] = {}
        for line in self._history.read(path, "t", "ev", "op", may_be_cut=True):
            op, t = line["op"], line["t"]
            if line["ev"] == "asked":
                asked = [job for job in line["jobs"] if job["job_id"] in self.told.jobs]
                if asked:
                    mine[op] = [job["job_id"] for job in asked]
                for job in asked:
                    self._add(
                        job["job_id"], t, path.stem, f"call {op}: enqueue {job.get('task')}, key {job.get('key')}"
                    )
            elif line["ev"] == "answered" and op in mine:
                for one in line["answers"]:
                    what = f"call {op}: {one['answer']}, id {one.get('id')}, holder {one.get('holder')}"
                    self._add(one["job_id"], t, path.stem, what)
            else:
                for name in mine.get(op, ()):
                    self._add(name, t, path.stem, f"call {op}: {line['ev']} {line.get('why') or ''}")

    def _bodies(self, path: Path) -> None:
        for line in self._history.read(path, "t", "ev", "pid", "job_id", "run", may_be_cut=True):
            if line["ev"] == "start":
                self.told.starts[int(self._since(line["t"]))] += 1
            if line["job_id"] in self.told.jobs:
                known = ("how", "attempt", "token")
                more = ", ".join(f"{name} {line[name]}" for name in known if line.get(name) is not None)
                what = f"run {line['run']}: {line['ev']}{' ' if more else ''}{more}"
                self._add(line["job_id"], line["t"], f"pid {line['pid']}", what)

    def _faults(self) -> None:
        for line in self._history.each(FAULTS, "t", "kind", "target", "landed", "running"):
            if not line["landed"]:
                continue
            met = line["running"] not in ([], ["-"])
            self.told.faults.append(Fault(self._since(line["t"]), str(line["kind"]), met))
            until = line.get("until")
            lasts = "" if until is None else f" for {until - line['t']:.2f} s"
            for name in line["running"]:
                what = f"{line['kind']}: {line['target']}{lasts} {line.get('note') or ''}"
                self._add(name, line["t"], "nemesis", what)

    def _log(self) -> None:
        last, tx = 0.0, None
        for line in self._history.each(DATABASE, "n", "txid", "place", "op", "id", "row"):
            row, id_ = line["row"] or {}, line["id"]
            if line["place"] == "job" and row.get("job_id") in self.told.jobs:
                self._ids[id_] = row["job_id"]
            stale = line["place"] == "attempt" and line["op"] == "insert" and row.get("how") == "stale"
            if not stale and id_ not in self._ids:
                continue
            t = None if line["txid"] == tx else self._moment(line["n"])  # a transaction is shown as one moment
            last, tx = last if t is None else max(last, self._since(t)), line["txid"]
            if stale:
                self.told.rescues[int(last)] += 1
            if id_ in self._ids:
                self._row(self.told.jobs[self._ids[id_]], line, row, last)

    def _moment(self, n: int) -> float | None:
        """About when a line of the log was written: by then at the latest, where that is known."""
        t = self._moments.latest(n)
        t = t if t < inf else self._moments.earliest(n)
        return t if t > -inf else None

    def _row(self, entries: list[Entry], line: Line, row: Line, t: float) -> None:
        shown = ", ".join(f"{name} {value}" for name, value in row.items() if value is not None)
        what = f"{line['op']} {line['place']}: {shown} (transaction {line['txid']})"
        beat = line["op"] == "update" and line["place"] == "running"
        before = entries[-1] if entries else None
        if beat and before is not None and before.who == "database" and before.what.startswith("update running"):
            before.times += 1
        else:
            entries.append(Entry(t, "database", what, line["n"]))
