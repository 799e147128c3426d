"""How fast one worker process drains no-op jobs, beside the bare SQL loop that it is built on; prints JSON.

    python bench/drain.py                      an own embedded server, default settings, fsync on
    python bench/drain.py --dsn DSN --jobs N   a database that has fencepost's schema and nothing else to do

Both sides are measured in turn, ``--rounds`` times. ``bare``: one connection calls claim_v1 and settle_v1 for 100 jobs at
a time and does nothing with them. ``worker``: an embedded worker with everything on (typed arguments, context, two
middlewares, an observer, local deadlines, board, pulse, LISTEN), 16 slots, async or thread handlers. The ratio is the
median of the rounds' ratios, with the least and the greatest beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from fencepost import App, JobContext
from fencepost.embedded.server import EmbeddedServer
from fencepost.store import schema
from fencepost.tasks.events import JobEnded
from fencepost.tasks.middleware import AsyncNext, SyncNext

BATCH = 100
CLAIM = "SELECT id, run_count FROM fencepost.claim_v1(%s, %s::text[], %s::int[])"
SETTLE = "SELECT * FROM fencepost.settle_v1(%s, %s::bigint[], %s::int[], %s::text[])"


class Side:
    """One thing to measure: ``drain`` empties the queue ``queue``, whose jobs are of the task ``task``."""

    def __init__(self, name: str, queue: str, task: str, drain: Callable[[], None]) -> None:
        self.name, self.queue, self.task, self.drain = name, queue, task, drain
        self.rates: list[float] = []


def build(dsn: str) -> App:
    """The app under test: everything on that a user would have on."""
    app = App(dsn, name="bench")

    @app.middleware
    async def first(job: JobContext, call_next: AsyncNext) -> Any:
        return await call_next(job)

    @app.middleware
    async def second(job: JobContext, call_next: AsyncNext) -> Any:
        return await call_next(job)

    @app.middleware
    def plain(job: JobContext, call_next: SyncNext) -> Any:
        return call_next(job)

    @app.task("bench.async", queue="async")
    async def in_loop(job: JobContext, order: int, name: str) -> None: ...

    @app.task("bench.thread", queue="thread")
    def in_thread(job: JobContext, order: int, name: str) -> None: ...

    ended = [0]

    @app.on(JobEnded)
    def count(_: JobEnded) -> None:
        ended[0] += 1

    return app


def fill(dsn: str, side: Side, jobs: int) -> None:
    """Put so many jobs there, in an otherwise empty database."""
    tables = "job, ready, delayed, parked, running, outcome, held, attempt, carry"
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("TRUNCATE " + ", ".join(f"fencepost.{name}" for name in tables.split(", ")))
        conn.execute(
            "SELECT count(*) FROM fencepost.enqueue_v1("
            " ARRAY(SELECT %s || n FROM generate_series(1, %s) n), array_fill(%s::text, ARRAY[%s]),"
            ' ARRAY(SELECT format(\'{"order": %%s, "name": "n"}\', n) FROM generate_series(1, %s) n),'
            " array_fill(%s::text, ARRAY[%s]))",
            [f"{secrets.token_hex(4)}:", jobs, side.task, jobs, jobs, side.queue, jobs],
        )
        conn.execute("VACUUM ANALYZE fencepost.job, fencepost.ready")
        conn.execute("CHECKPOINT")


def bare(dsn: str, queue: str) -> None:
    """Claim and settle, nothing else."""
    token = secrets.randbits(62) | 1
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as conn:
        while rows := conn.execute(CLAIM, [token, [queue], [BATCH]]).fetchall():
            ids, runs = [row[0] for row in rows], [row[1] for row in rows]
            conn.execute(SETTLE, [token, ids, runs, ["succeed"] * len(ids)]).fetchall()


async def work(app: App, queue: str, slots: int) -> None:
    """One embedded worker until nothing is left."""
    async with app.worker(queues=[queue], slots=slots) as worker:
        await worker.run_until_idle(within=300)


def worker_side(app: App, kind: str, slots: int) -> Side:
    """An embedded worker on the queue and with the task of that kind."""
    return Side(kind, kind, f"bench.{kind}", lambda: asyncio.run(work(app, kind, slots)))


def left(dsn: str) -> int:
    """Jobs that have not succeeded."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute("SELECT count(*) FROM fencepost.jobs WHERE state <> 'succeeded'").fetchone()
        return int(row[0]) if row else -1


def measure(dsn: str, sides: list[Side], jobs: int, rounds: int) -> None:
    """Each side in turn, so that a slow minute of the machine hits all."""
    for _ in range(rounds):
        for side in sides:
            fill(dsn, side, jobs)
            began = time.perf_counter()
            side.drain()
            took = time.perf_counter() - began
            if missing := left(dsn):
                raise SystemExit(f"{side.name}: {missing} of {jobs} jobs did not succeed")
            side.rates.append(jobs / took)


def figures(side: Side, against: Side) -> dict[str, Any]:
    """Median and spread of the rates, and of the ratios to ``against``."""
    ratios = [mine / theirs for mine, theirs in zip(side.rates, against.rates, strict=True)]
    return {
        "jobs_per_s": round(statistics.median(side.rates)),
        "spread": [round(min(side.rates)), round(max(side.rates))],
        "ratio_to_bare": round(statistics.median(ratios), 3),
        "ratio_spread": [round(min(ratios), 3), round(max(ratios), 3)],
    }


@contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """The one named, or one on a server of our own."""
    if dsn is not None:
        yield dsn
        return
    with tempfile.TemporaryDirectory(prefix="fpb-") as folder:
        server = EmbeddedServer(Path(folder) / "pg", settings={"shared_buffers": "256MB"}).start()
        try:
            yield server.dsn()
        finally:
            server.stop()


def main() -> None:
    """The entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--only", choices=["async", "thread"])
    given = parser.parse_args()
    with database(given.dsn) as dsn:
        app = build(dsn)
        schema.migrate(dsn, app.catalog)
        bare_side = Side("bare", "async", "bench.async", lambda: bare(dsn, "async"))
        sides = [bare_side]
        sides += [worker_side(app, kind, given.slots) for kind in (given.only and [given.only]) or ["async", "thread"]]
        measure(dsn, sides, given.jobs, given.rounds)
        with psycopg.connect(dsn) as conn:
            version = conn.info.server_version
    report = {
        "jobs": given.jobs,
        "rounds": given.rounds,
        "slots": given.slots,
        "batch_of_bare": BATCH,
        "python": platform.python_version(),
        "postgresql": version,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "sides": {side.name: figures(side, bare_side) for side in sides},
    }
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
