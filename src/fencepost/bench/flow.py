"""Flow: jobs come in as fast as they are done, for minutes; does the last minute cost what the first did?

A feeder keeps a few thousand jobs waiting, workers drain them. With ``pin`` somebody holds a snapshot all the while, so that
no dead row can be removed: ``snapshot`` is a transaction that has read other tables only, ``dump`` has read ours as well, as
pg_dump does.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from typing import Any, Literal

import psycopg
from psycopg import sql as words

from fencepost.bench.cost import Meter
from fencepost.bench.crew import worker
from fencepost.bench.ground import FILL, PAYLOAD, QUEUE, SCHEMA, Ground

_BACKLOG = 3_000
_PIECE = 500
_WARM_S = 3.0

_LOOK = f"""
SELECT coalesce((SELECT max(id) FROM {SCHEMA}.outcome), 0), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8,
       (SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database())::float8"""  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOptions:
    """``edge``: the first and the last so many seconds are compared, at most half of all."""

    seconds: float = 300.0
    edge: float = 60.0
    pin: Literal["none", "snapshot", "dump"] = "none"
    slots: int = 32
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Look:
    """Totals at one moment."""

    at: float
    jobs: int
    wal: float
    buffers: float
    cpu_s: float | None


def run(ground: Ground, options: FlowOptions) -> dict[str, Any]:
    """Measure once; the figures as JSON has them."""
    looks = _looks(ground, options)
    edge = min(options.edge, options.seconds / 2)
    first, last = between(looks, looks[0].at + edge), between(looks[::-1], looks[-1].at - edge)
    return {
        "bench": "flow",
        "pin": options.pin,
        "jobs": looks[-1].jobs - looks[0].jobs,
        "first": first,
        "last": last,
        "last_to_first": {
            name: round(after / before, 3)
            for name, before in first.items()
            if before and (after := last[name]) is not None
        },
        "per_s": [round((b.jobs - a.jobs) / (b.at - a.at)) for a, b in pairwise(looks)],
        "seconds": options.seconds,
        "edge": edge,
        "slots": options.slots,
        "processes": options.processes,
        **ground.facts(),
    }


def _looks(ground: Ground, options: FlowOptions) -> list[Look]:
    ground.clear()
    ground.open()
    with (
        worker(ground, [f"--slots={options.slots}"], processes=options.processes) as pid,
        _feeder(ground),
        _pinned(ground, options.pin),
        ground.connect() as conn,
    ):
        time.sleep(_WARM_S)
        meter = Meter(ground.postmaster, pid)
        looks = [_look(conn, meter)]
        until = looks[0].at + options.seconds
        while looks[-1].at < until:
            time.sleep(max(0.0, looks[0].at + len(looks) - time.monotonic()))
            looks.append(_look(conn, meter))
            if len(looks) % 10 == 0:
                rate = (looks[-1].jobs - looks[-10].jobs) / (looks[-1].at - looks[-10].at)
                print(f"{looks[-1].at - looks[0].at:.0f} s: {rate:,.0f} jobs/s", file=sys.stderr, flush=True)
    return looks


def _look(conn: psycopg.Connection[Any], meter: Meter) -> Look:
    jobs, wal, buffers = conn.execute(_LOOK.encode()).fetchall()[0]
    return Look(time.monotonic(), jobs, wal, buffers, meter.spent_s())


def between(looks: Sequence[Look], edge: float) -> dict[str, float | None]:
    """What a job costs from the first of these looks to the one nearest to ``edge``, whichever of them is earlier."""
    nearest = min(looks[1:], key=lambda look: abs(look.at - edge))
    a, b = sorted((looks[0], nearest), key=lambda look: look.at)
    jobs = max(1, b.jobs - a.jobs)
    cpu = None if a.cpu_s is None or b.cpu_s is None else round((b.cpu_s - a.cpu_s) / jobs * 10_000, 3)
    return {
        "jobs_per_s": round(jobs / (b.at - a.at), 1),
        "wal_bytes_per_job": round((b.wal - a.wal) / jobs, 1),
        "buffers_per_job": round((b.buffers - a.buffers) / jobs, 2),
        "cpu_s_per_10k": cpu,
    }


@contextlib.contextmanager
def _pinned(ground: Ground, how: str) -> Iterator[None]:
    if how == "none":
        yield
        return
    with psycopg.connect(ground.dsn, application_name="somebody's report") as conn:
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT count(*) FROM pg_class")
        if how == "dump":
            for table in ("job", "ready", "running", "outcome"):
                conn.execute(words.SQL("SELECT FROM {} LIMIT 1").format(words.Identifier(SCHEMA, table)))
        yield


@contextlib.contextmanager
def _feeder(ground: Ground) -> Iterator[None]:
    process = get_context("spawn").Process(target=_feed, args=(ground.dsn,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join(10)


def _feed(dsn: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a word
    fill = words.SQL(FILL).format(words.Identifier(SCHEMA))
    done = words.SQL("SELECT coalesce(max(id), 0) FROM {}").format(words.Identifier(SCHEMA, "outcome"))
    jobs = {"n": _PIECE, "payload": PAYLOAD, "task": "bench.async", "queue": QUEUE}
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as conn:
        last = 0
        while True:
            if last - conn.execute(done).fetchall()[0][0] > _BACKLOG:
                time.sleep(0.005)
                continue
            last = conn.execute(fill, jobs).fetchall()[0][0]
