"""Histories told by hand: what clients, workers, the database and the nemesis would have left behind."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = dict[str, Any]

TTL = 2.0
CHILD, OTHER, LATER, SUPERVISOR = 101, 202, 303, 100
TOKENS = {CHILD: 11, OTHER: 22, LATER: 33}


@dataclass
class Told:
    """A job as the tale goes."""

    name: str
    id: int
    key: str | None
    state: str = "queued"
    run: int = 0
    attempts: int = 0
    crashes: int = 0
    pid: int = CHILD
    purged: bool = False
    runs: list[Line] = field(default_factory=list)


class Tale:
    """Tells a history step by step. Each step takes a hundredth of a second and is seen by all who would see it.

    ``lines`` may be edited afterwards; ``write`` puts them into a folder.
    """

    def __init__(self) -> None:
        self.lines: defaultdict[str, list[Line]] = defaultdict(list)
        self.jobs: dict[str, Told] = {}
        self.t, self.n, self.tx, self.op = 1000.0, 0, 0, 0
        self.meta: Line = {
            "seed": 7, "seconds": 60, "started": self.t, "drained": True, "drained_at": 9999.0, "versions": {},
            "settings": {"ttl": TTL, "heartbeat": 0.4, "margin": 0.9, "max_attempts": 5, "max_crashes": 3, "workers": 2, "shutdown_timeout": 2.0},
            "floors": {}, "kinds": [],
        }  # fmt: skip
        for name in ("database.jsonl", "effects.jsonl", "faults.jsonl", "fsck.jsonl", "enqueue-1.jsonl"):
            self.lines[name] = []

    # ---- clients

    def ask(self, *names: str, key: str | None = None) -> int:
        self.op += 1
        jobs = [{"job_id": name, "key": key, "task": "pay"} for name in names]
        self.lines["enqueue-1.jsonl"].append({"t": self.pass_(), "ev": "asked", "op": self.op, "jobs": jobs})
        return self.op

    def answer(self, op: int, *answers: tuple[str, str, int | None] | tuple[str, str, str | None]) -> None:
        told = [
            {"job_id": name, "answer": word, "id": who if isinstance(who, int) else None, "holder": who if isinstance(who, str) else None}
            for name, word, who in answers
        ]  # fmt: skip
        self.lines["enqueue-1.jsonl"].append({"t": self.pass_(), "ev": "answered", "op": op, "answers": told})

    def fate(self, op: int, ev: str) -> None:
        self.lines["enqueue-1.jsonl"].append({"t": self.pass_(), "ev": ev, "op": op, "why": "told so"})

    def enqueue(self, name: str, key: str | None = None, insert: bool = True, answered: bool = True) -> Told:
        op = self.ask(name, key=key)
        job = self.jobs[name] = Told(name, len(self.jobs) + 1, key)
        if insert:
            self.insert(job)
        if answered:
            self.answer(op, (name, "created", job.id))
        return job

    def skip(self, name: str, key: str | None, holder: str | None) -> None:
        op = self.ask(name, key=key)
        self.answer(op, (name, "skipped", holder))

    # ---- the database

    def log(self, place: str, op: str, id_: int, **row: Any) -> None:
        """One line of the log, in the transaction that ``commit`` began last."""
        self.pass_()
        self.n += 1
        at = 1.7e9 + self.t
        self.lines["database.jsonl"].append(
            {"n": self.n, "txid": self.tx, "at": at, "place": place, "op": op, "id": id_, "row": row}
        )

    def begin(self) -> None:
        self.tx += 1

    def insert(self, job: Told) -> None:
        self.begin()
        self.log("job", "insert", job.id, job_id=job.name)
        self.move(job, None, "ready")
        if job.key is not None:
            self.log("held", "insert", job.id, scope="pay", key=job.key)

    def row(self, job: Told, place: str, **other: Any) -> Line:
        row = {"run_count": job.run, "attempts": job.attempts, "crashes": job.crashes, "snoozes": 0}
        if place == "running":
            row["token"] = TOKENS[job.pid]
        return {**row, **other}

    def move(self, job: Told, source: str | None, target: str | None, **other: Any) -> None:
        if source is not None:
            self.log(source, "delete", job.id, **self.row(job, source))
        if target is not None:
            self.log(target, "insert", job.id, **self.row(job, target, **other))

    def claim(self, job: Told, pid: int = CHILD, source: str = "ready") -> None:
        self.begin()
        self.log(source, "delete", job.id, **self.row(job, source))
        job.run, job.attempts, job.pid, job.state = job.run + 1, job.attempts + 1, pid, "running"
        self.log("running", "insert", job.id, **self.row(job, "running"))

    def beat(self, job: Told, **other: Any) -> None:
        self.begin()
        self.log("running", "update", job.id, **self.row(job, "running", **other))

    def settle(self, job: Told, state: str = "succeeded", stale: bool = False) -> None:
        self.begin()
        self.move(job, "running", None)
        self.log("outcome", "insert", job.id, **self.row(job, "outcome", state=state, token=TOKENS[job.pid]))
        if job.key is not None:
            self.log("held", "delete", job.id, scope="pay", key=job.key)
        job.state = state
        self.record(job, "stale" if stale else state, True)

    def put_back(self, job: Told, how: str, spent: bool = True, refused: int = 0, place: str = "ready") -> None:
        self.begin()
        self.move(job, "running", None)
        token = TOKENS[job.pid]
        self.log("attempt", "insert", job.id, run_count=job.run, token=token, how=how, spent=spent, refused=0)
        job.attempts -= not spent
        job.crashes += how == "stale"
        job.state = "queued"
        self.log(place, "insert", job.id, **self.row(job, place))
        self.record(job, how, spent, refused)

    def record(self, job: Told, how: str, spent: bool, refused: int = 0) -> None:
        job.runs.append(
            {"id": job.id, "run_count": job.run, "token": TOKENS[job.pid], "how": how, "spent": spent, "refused": refused, "error_code": None}
        )  # fmt: skip

    # ---- workers and the sink

    def body(self, ev: str, job: Told, pid: int | None = None, run: int | None = None, **other: Any) -> None:
        pid = pid or job.pid
        line = {"t": self.pass_(), "ev": ev, "pid": pid, "job_id": job.name, "run": run or job.run, **other}
        self.lines[f"worker-{pid}.jsonl"].append(line)

    def start(self, job: Told, **other: Any) -> None:
        self.body("start", job, **{"id": job.id, "token": TOKENS[job.pid], "attempt": job.attempts, **other})

    def effect(self, job: Told, pid: int | None = None, run: int | None = None) -> None:
        self.body("effect", job, pid, run)
        first = all(line["job_id"] != job.name for line in self.lines["effects.jsonl"])
        self.lines["effects.jsonl"].append(
            {"t": self.pass_(), "job_id": job.name, "run": run or job.run, "pid": pid or job.pid, "first": first}
        )

    def run_well(self, job: Told, pid: int = CHILD, source: str = "ready") -> None:
        self.claim(job, pid, source)
        self.start(job)
        self.effect(job)
        self.body("end", job, how="returned")
        self.settle(job)

    def whole(self, name: str, key: str | None = None) -> Told:
        """A job without any trouble."""
        job = self.enqueue(name, key)
        self.run_well(job)
        return job

    # ---- the nemesis

    def fault(self, kind: str, target: str, running: list[str], until: float | None = None, **other: Any) -> None:
        t = self.pass_()
        line = {
            "t": t,
            "until": until or t,
            "kind": kind,
            "target": target,
            "landed": True,
            "running": running,
            "note": "",
        }
        self.lines["faults.jsonl"].append({**line, **other})

    def stop(self, pids: list[int], gone: float | None) -> None:
        t = self.pass_()
        self.lines["stops.jsonl"].append(
            {"t": t, "pid": SUPERVISOR, "pids": pids, "signal": "TERM", "gone": gone, "code": 0}
        )

    # ---- the end

    def pass_(self, seconds: float = 0.01) -> float:
        self.t = round(self.t + seconds, 3)
        return self.t

    def finish(self) -> None:
        """The final tables, as the tale left them; may be edited after that."""
        self.lines["jobs.jsonl"], self.lines["runs.jsonl"] = [], []
        for job in self.jobs.values():
            if job.purged:
                continue
            counts = {"run_count": job.run, "attempts": job.attempts, "crashes": job.crashes, "snoozes": 0}
            self.lines["jobs.jsonl"].append(
                {
                    "id": job.id,
                    "job_id": job.name,
                    "state": job.state,
                    "unique_key": job.key,
                    "error_code": None,
                    **counts,
                }
            )
            self.lines["runs.jsonl"].extend(job.runs)

    def final(self, name: str) -> Line:
        """The row of a job in the final table, to be edited."""
        if "jobs.jsonl" not in self.lines:
            self.finish()
        return next(line for line in self.lines["jobs.jsonl"] if line["job_id"] == name)

    def forget(self, name: str, **like: Any) -> None:
        """Take out the lines of a file that have all of these values."""
        self.lines[name] = [line for line in self.lines[name] if any(line.get(k) != v for k, v in like.items())]

    def write(self, folder: Path) -> Path:
        if "jobs.jsonl" not in self.lines:
            self.finish()
        for name, lines in self.lines.items():
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "meta.json").write_text(json.dumps(self.meta))
        return folder
