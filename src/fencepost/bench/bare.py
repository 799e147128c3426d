"""The bare SQL that everything is compared with: one table, no keys, no fences, no history, no worker.

A row has the columns that a job table needs; its state is UPDATEd at the claim and at the end, in batches, by prepared
statements of one connection: what a careful person would write by hand, and the ceiling of that design.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import psycopg

from fencepost.bench.cost import Meter
from fencepost.bench.ground import BARE_SCHEMA, PAYLOAD, Ground
from fencepost.bench.sides import Reading

BATCH = 100
_TOGETHER_S = 60.0
_WITHIN_S = 1800.0

_TABLE = f"""
CREATE SCHEMA IF NOT EXISTS {BARE_SCHEMA};
DROP TABLE IF EXISTS {BARE_SCHEMA}.job;
CREATE TABLE {BARE_SCHEMA}.job (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_id       uuid NOT NULL DEFAULT gen_random_uuid(),
  queue        text NOT NULL DEFAULT 'default',
  type         text NOT NULL,
  args         jsonb NOT NULL,
  state        text NOT NULL DEFAULT 'queued',
  priority     int NOT NULL DEFAULT 0,
  attempts     int NOT NULL DEFAULT 0,
  run_count    int NOT NULL DEFAULT 0,
  max_attempts int NOT NULL DEFAULT 5,
  run_at       timestamptz NOT NULL DEFAULT now(),
  created_at   timestamptz NOT NULL DEFAULT now(),
  started_at   timestamptz,
  heartbeat_at timestamptz,
  finished_at  timestamptz,
  worker_id    text,
  last_error   text
);
CREATE INDEX job_ready ON {BARE_SCHEMA}.job (queue, priority DESC, run_at, id) WHERE state = 'queued'"""

_FILL = f"INSERT INTO {BARE_SCHEMA}.job (type, args) SELECT 'mail', %s::jsonb FROM generate_series(1, %s)"  # noqa: S608
_ONE = f"INSERT INTO {BARE_SCHEMA}.job (type, args) VALUES ('mail', %s)"  # noqa: S608
_COPY = f"COPY {BARE_SCHEMA}.job (type, args) FROM STDIN"

_CLAIM = f"""
WITH due AS (
  SELECT id FROM {BARE_SCHEMA}.job WHERE state = 'queued' AND queue = 'default' AND run_at <= now()
   ORDER BY priority DESC, run_at, id LIMIT %s FOR UPDATE SKIP LOCKED)
UPDATE {BARE_SCHEMA}.job j
   SET state = 'running', attempts = attempts + 1, run_count = run_count + 1, started_at = now(), heartbeat_at = now(),
       worker_id = 'w1'
  FROM due WHERE j.id = due.id RETURNING j.id, j.type, j.args, j.run_count"""  # noqa: S608

_DONE = f"""
UPDATE {BARE_SCHEMA}.job j SET state = 'succeeded', finished_at = now(), heartbeat_at = NULL
  FROM unnest(%s::bigint[], %s::int[]) d (id, rc) WHERE j.id = d.id AND j.run_count = d.rc AND j.state = 'running'"""  # noqa: S608


def fill(ground: Ground, jobs: int) -> None:
    """A new table with so many jobs."""
    with ground.connect() as conn:
        conn.execute(_TABLE.encode())
        conn.execute(_FILL.encode(), [PAYLOAD, jobs])
        conn.execute(f"VACUUM ANALYZE {BARE_SCHEMA}.job".encode())
        ground.checkpoint(conn)


def drain(ground: Ground, batch: int = BATCH) -> float:
    """Claim and end all jobs, so many at a time, on one connection; seconds."""
    with ground.connect() as conn:
        conn.prepare_threshold = 0
        began = time.perf_counter()
        while rows := conn.execute(_CLAIM.encode(), [batch]).fetchall():
            conn.execute(_DONE.encode(), [[row[0] for row in rows], [row[3] for row in rows]])
        return time.perf_counter() - began


def copy(ground: Ground, jobs: int) -> float:
    """COPY so many rows in one transaction; seconds."""
    with ground.connect() as conn:
        began = time.perf_counter()
        with conn.cursor() as cursor, cursor.copy(_COPY.encode()) as rows:
            for _ in range(jobs):
                rows.write_row(("mail", PAYLOAD))
        return time.perf_counter() - began


def insert(dsn: str, jobs: int, begin: Any) -> Stint:
    """One row a transaction, on a connection of its own."""
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as conn, stint(begin) as mine:
        for _ in range(jobs):
            conn.execute(_ONE.encode(), [PAYLOAD])
    return mine


def commit_s(ground: Ground, commits: int = 100) -> list[float]:
    """How long each of some commits of one row takes, on an idle connection."""
    fill(ground, 0)
    found = []
    with ground.connect() as conn:
        for _ in range(commits):
            began = time.perf_counter()
            conn.execute(_ONE.encode(), [PAYLOAD])
            found.append(time.perf_counter() - began)
    return found


@dataclass(slots=True)
class Stint:
    """When one of several callers began and ended, by the machine's clock, and the CPU seconds that it spent."""

    began: float = 0.0
    ended: float = 0.0
    cpu_s: float = 0.0


@contextlib.contextmanager
def stint(begin: Any) -> Iterator[Stint]:
    """What one caller does, once all are there; a caller that does not come breaks the barrier for the others."""
    begin.wait(_TOGETHER_S)
    made = Stint(began=time.monotonic())
    spent = time.process_time()
    yield made
    made.ended, made.cpu_s = time.monotonic(), time.process_time() - spent


def at_once(ground: Ground, work: Callable[[str, int, Any], Stint], jobs: int, connections: int) -> Reading:
    """Run ``work(dsn, jobs, begin)`` in so many processes that begin together; nobody is left behind by Ctrl-C.

    From the first that begins to the last that ends; CPU of server and callers.
    """
    each = jobs // connections
    context = get_context("spawn")
    with context.Manager() as manager, context.Pool(connections, _end_quietly) as pool:
        begin = manager.Barrier(connections)
        meter = Meter(ground.postmaster)
        stints = pool.starmap_async(work, [(ground.dsn, each, begin)] * connections, 1).get(_WITHIN_S)
        server = meter.spent_s()
    seconds = max(one.ended for one in stints) - min(one.began for one in stints)
    cpu = None if server is None else server + sum(one.cpu_s for one in stints)
    return Reading(each * connections, seconds, cpu)


def _end_quietly() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
