"""The database's witness: its log replayed, line by line, with every rule that a single move can break.

A job lies in one place at a time. All lines of one transaction about one job are looked at together: its row locks let
nobody else write about the job in between. Rows keep the columns that matter, so that millions of lines fit into memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from fencepost.testing.torture.histories import DATABASE, History, Line
from fencepost.testing.torture.verdict import Findings
from fencepost.testing.torture.witnesses.spans import Spans

QUEUED = ("ready", "delayed", "parked")
PLACES = frozenset((*QUEUED, "running", "outcome"))
UNSPENT = frozenset(("release", "snooze", "park"))
TAKEN = frozenset(("stale", "timeout"))
"""How a run ended that somebody else ended."""


class Row(NamedTuple):
    """The columns of a row that matter; None where the place has none."""

    run: int | None
    token: Any
    attempts: int | None
    crashes: int | None
    word: str | None
    spent: bool | None
    bound: int | None


class Run:
    """One claim, as the database saw it and as its body did."""

    __slots__ = (
        "attempt", "body_pid", "claimed", "effect", "end", "ended", "gone", "how", "id", "job_id", "run", "started",
        "token", "told",
    )  # fmt: skip

    def __init__(self, id_: int, run: int, token: Any, attempt: int | None, claimed: int | None) -> None:
        self.id, self.run, self.token, self.attempt, self.claimed = id_, run, token, attempt, claimed
        self.gone: int | None = None
        self.how: str | None = None
        self.job_id: str | None = None
        self.body_pid: int | None = None
        self.started: float | None = None
        self.ended: float | None = None
        self.end: str | None = None
        self.told: float | None = None
        self.effect: float | None = None


class Job:
    """One row of the table of jobs: where it lies now, and the lines of the transaction that is about it now."""

    __slots__ = ("aside", "created", "deleted", "ended", "group", "id", "job_id", "place", "row", "tx")

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.job_id: str | None = None
        self.place: str | None = None
        self.row: Row | None = None
        self.tx: int | None = None
        self.group: list[tuple[str, str, int, Row]] = []
        self.created: int | None = None
        self.aside = self.deleted = self.ended = False


class Moves:
    """The replay. ``keys`` says which (task, key) the clients gave to which job_id."""

    def __init__(self, findings: Findings, keys: Mapping[str, tuple[str, str]], max_attempts: float) -> None:
        self.findings, self.keys, self.max_attempts = findings, keys, max_attempts
        self.jobs: dict[int, Job] = {}
        self.ids: dict[str, int] = {}
        self.runs: dict[tuple[int, int], Run] = {}
        self.purged: Counter[str | None] = Counter()
        self.held, self.active = Spans(), Spans()

    def replay(self, history: History) -> None:
        """Read the log to its end."""
        last = -1
        for number, line in enumerate(history.each(DATABASE, "n", "txid", "place", "op", "id", "row"), 1):
            if line["n"] <= last:
                history.note(DATABASE, number, f"n is {line['n']} after {last}")
                continue
            last = line["n"]
            self._take(line)
        for job in self.jobs.values():
            self._close(job)
        for spans, what in ((self.held, "holds the key"), (self.active, "is active with the key")):
            for first, second in spans.overlaps():
                self._say("P4", second.id, f"{what} {_shown(second.what)} at the same time as {self.name(first.id)}")

    def name(self, id_: int) -> str:
        """The job_id of a row, as far as the log tells it."""
        job = self.jobs.get(id_)
        return job.job_id if job and job.job_id else f"id {id_}"

    def _say(self, rule: str, id_: int, what: str) -> None:
        self.findings.add(rule, self.name(id_), what)

    def _take(self, line: Line) -> None:
        place, op, id_, row = line["place"], line["op"], line["id"], line["row"] or {}
        if place == "attempt" and op != "insert":  # refused late writes are counted there, by anybody at any time
            return
        job = self.jobs.get(id_)
        if job is None:
            job = self.jobs[id_] = Job(id_)
        if job.tx != line["txid"]:
            self._close(job)
            job.tx = line["txid"]
        if place == "held":
            self._hold(op, line, row)
        elif place == "job":
            self._identity(job, op, line["n"], row)
        elif place == "outcome" and op == "insert":
            self._signed(line, row)
        get = row.get
        word = get("state") or get("how")
        kept = Row(
            get("run_count"), get("token"), get("attempts"), get("crashes"), word, get("spent"), get("max_attempts")
        )
        job.group.append((op, place, line["n"], kept))

    def _signed(self, line: Line, row: Line) -> None:
        """A result names the run that made it; what another run made must not become this run's outcome."""
        result = row.get("result")
        if not (isinstance(result, dict) and {"run", "token"} <= result.keys()):
            return
        if (result["run"], result["token"]) != (row.get("run_count"), row.get("token")):
            made_by = f"run {result['run']} (token {result['token']})"
            written_for = f"run {row.get('run_count')} (token {row.get('token')})"
            self._say("P2", line["id"], f"the result of {made_by} became the outcome of {written_for}")

    def _identity(self, job: Job, op: str, n: int, row: Line) -> None:
        name = row.get("job_id")
        if op == "delete":
            job.deleted = True
            self.purged[job.job_id] += 1
        elif name is not None:
            job.job_id = name
            if op == "insert":
                job.created = n
                other = self.jobs.get(self.ids.get(name, -1))
                if other is not None and not other.deleted:
                    self.findings.add("P5", name, f"two rows at once, {other.id} and {job.id}")
            self.ids[name] = job.id

    def _hold(self, op: str, line: Line, row: Line) -> None:
        id_, n, tx = line["id"], line["n"], line["txid"]
        if op == "insert":
            self.held.begin((row.get("scope"), row.get("key")), id_, n, tx)
        elif op == "delete":
            self.held.end(id_, n, tx)

    def _close(self, job: Job) -> None:
        """The transaction about this job is complete: look at the whole of it."""
        if job.group:
            group, job.group = job.group, []
            Step(self, job, group).look()

    def begin_active(self, job: Job, n: int, tx: int) -> None:
        """From this line on the job counts as one that has its key."""
        key = self.keys.get(job.job_id or "")
        if key is not None and not self.active.has(job.id):
            self.active.begin(key, job.id, n, tx)


class Step:
    """What one transaction did to one job."""

    def __init__(self, moves: Moves, job: Job, group: list[tuple[str, str, int, Row]]) -> None:
        self.moves, self.job, self.group = moves, job, group
        self.left: dict[str, Row] = {}
        self.arrived: dict[str, tuple[Row, int]] = {}
        self.records: dict[int | None, Row] = {}
        self.places = {} if job.place is None or job.row is None else {job.place: job.row}

    def look(self) -> None:
        """Follow the lines, then judge the move as a whole."""
        for op, place, n, row in self.group:
            if place in PLACES:
                self._follow(op, place, n, row)
            elif place == "attempt":
                self.records[row.run] = row
            elif place == "quarantine" and op == "insert":
                self.job.aside = True
        self._where()
        if "running" in self.left:
            self._end(self.left["running"])
        if "running" in self.arrived:
            self._claim(*self.arrived["running"])
        if "outcome" in self.arrived:
            self._outcome(*self.arrived["outcome"])
        for place in QUEUED:
            if place in self.arrived:
                self._queued(self.arrived[place][0])

    def _say(self, rule: str, what: str) -> None:
        self.moves.findings.add(rule, self.moves.name(self.job.id), what)

    def _follow(self, op: str, place: str, n: int, row: Row) -> None:
        known = self.places.get(place)
        if op == "insert":
            if known is not None:
                self._say("P2", f"two rows in {place}")
            self.places[place] = row
            self.arrived[place] = row, n
        elif op == "delete":
            if known is None:
                self._say("P1", f"left {place}, where it was not")
            elif (known.run, known.token) != (row.run, row.token):
                self._say("P6", f"{place} held {_fence(known)} and gave away {_fence(row)}")
            self.places.pop(place, None)
            self.left[place] = row
        elif known is not None:
            self._update(place, known, row)
            self.places[place] = row

    def _update(self, place: str, known: Row, row: Row) -> None:
        if (known.run, known.token) != (row.run, row.token):
            self._say("P6", f"the row in {place} was {_fence(known)} and became {_fence(row)} in place")
        if place == "outcome" and known.word not in {row.word, "in_doubt"}:
            self._say("P2", f"the outcome {known.word} was overwritten with {row.word}")

    def _where(self) -> None:
        """Exactly one place at the end of every transaction, and the key as long as the job is active."""
        job, first, last = self.job, self.group[0][2], self.group[-1][2]
        tx = job.tx or 0
        if len(self.places) > 1:
            self._say("P3", f"in {' and '.join(sorted(self.places))} at once")
        if not self.places and not job.aside and not job.deleted and (self.left or job.created is not None):
            self._say("P1", f"left {' and '.join(self.left) or 'nothing'} and arrived nowhere")
        job.place, job.row = next(iter(self.places.items()), (None, None))
        over = job.place is None or (job.place == "outcome" and job.row is not None and job.row.word != "in_doubt")
        if over:
            job.ended = job.ended or job.place == "outcome"
            self.moves.active.end(job.id, first, tx)
        else:
            self.moves.begin_active(job, last, tx)

    def _claim(self, row: Row, n: int) -> None:
        before = self._source()
        if before is None:
            self._say("P3", f"run {row.run} was claimed out of nowhere")
        elif None not in (before.run, row.run) and row.run != (before.run or 0) + 1:
            self._say("P3", f"run {row.run} was claimed after run {before.run}")
        elif None not in (before.attempts, row.attempts) and row.attempts != (before.attempts or 0) + 1:
            self._say("P3", f"run {row.run} began with {row.attempts} attempts after {before.attempts}")
        bound = row.bound if row.bound is not None else self.moves.max_attempts
        if row.attempts is not None and row.attempts > bound:
            self._say("P3", f"run {row.run} is attempt {row.attempts} of at most {bound:g}")
        where = self.job.id, row.run or 0
        if where in self.moves.runs:
            self._say("P3", f"run {row.run} was claimed twice")
        else:
            self.moves.runs[where] = Run(self.job.id, row.run or 0, row.token, row.attempts, n)

    def _source(self) -> Row | None:
        return next((self.left[place] for place in QUEUED if place in self.left), None)

    def _end(self, row: Row) -> None:
        """A lease ended: exactly one record of the run is left behind, under its own fence."""
        outcome = self.arrived.get("outcome", (None, 0))[0]
        settled = outcome is not None and (outcome.run, outcome.token) == (row.run, row.token)
        record = self.records.get(row.run)
        if record is not None and record.token is not None and record.token != row.token:
            self._say("P2", f"{_fence(row)} was ended by {_fence(record)}")
        if settled == (record is not None) and not self.job.aside:
            self._say("P2", f"run {row.run} ended {'with two records' if settled else 'without a record'}")
        run = self.moves.runs.get((self.job.id, row.run or 0))
        if run is not None:
            run.gone = next((n for op, place, n, _ in self.group if (op, place) == ("delete", "running")), None)
            run.how = record.word if record is not None else outcome.word if settled and outcome else None

    def _outcome(self, row: Row, _n: int) -> None:
        """Only the run that holds the lease writes an outcome; without a run, only a job that waits can end."""
        held, before = self.left.get("running"), self.left.get("outcome")
        if before is not None and (before.run, before.token, before.word) == (row.run, row.token, row.word):
            return  # a resubmission that found its key held puts back what it took
        if row.token is not None and held is None:
            self._say("P2", f"{row.word} was written by {_fence(row)}, and nobody held the lease")
        elif row.token is not None and held is not None and (row.run, row.token) != (held.run, held.token):
            self._say("P2", f"{row.word} was written by {_fence(row)}, and {_fence(held)} held the lease")
        elif row.token is None and held is None and self._source() is None:
            self._say("P2", f"{row.word} was written over a job that was not waiting")

    def _queued(self, row: Row) -> None:
        """Back in a queue: the count of runs stays, and an attempt is given back only where that is due."""
        held, before = self.left.get("running"), self._source()
        if held is None:
            ended = self.left.get("outcome")
            for known in (before, ended):
                if known is not None and None not in (known.run, row.run) and known.run != row.run:
                    self._say("P3", f"the count of runs went from {known.run} to {row.run} without a claim")
            return
        if row.run != held.run and row.run is not None:
            self._say("P3", f"run {held.run} ended, and the job waits after run {row.run}")
        record = self.records.get(held.run)
        if record is None or None in (record.spent, held.attempts, row.attempts):
            return
        if record.word in UNSPENT and record.spent:
            self._say("P9", f"run {held.run} was handed back ({record.word}) and its attempt spent")
        if row.attempts != (held.attempts or 0) - (not record.spent):
            self._say(
                "P3", f"run {held.run} ended {record.word} and attempts went from {held.attempts} to {row.attempts}"
            )


def _fence(row: Row) -> str:
    return f"run {row.run} (token {row.token})"


def _shown(what: object) -> str:
    return "/".join(str(part) for part in what) if isinstance(what, tuple) else str(what)
