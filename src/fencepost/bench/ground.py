"""Where a benchmark runs: a PostgreSQL with nothing else to do, and tables that are filled anew for every reading.

The server is one of our own, durable as it comes (fsync and synchronous_commit on), or a database that is named. In a
named one the benchmark works in two schemas of its own and removes them at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql as words

from fencepost import App, early
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import UsageError
from fencepost.store import faults, schema
from fencepost.version import __version__

SCHEMA = "fencepost_bench"
BARE_SCHEMA = "fencepost_bench_bare"
QUEUE = "bench"

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "4GB", "max_connections": "200"}
"""Of our own server; everything else is PostgreSQL's default."""

SMALL_MEMORY = {"shared_buffers": "256MB"}
_SMALL = 4 << 30

ARGUMENTS: dict[str, Any] = {
    "user_id": 12345,
    "email": "someone@example.org",
    "template": "welcome",
    "locale": "en",
    "n": 0,
    "pad": "xxxxxxxx",
}
PAYLOAD = json.dumps(ARGUMENTS)
"""About 110 bytes: what a job that sends a mail carries."""

_TABLES = ("job", "ready", "delayed", "parked", "running", "outcome", "held", "attempt", "carry", "gate")
_SHOWN = (
    "shared_buffers", "max_wal_size", "fsync", "synchronous_commit", "wal_level", "full_page_writes", "autovacuum_naptime",
)  # fmt: skip
_AT_ONCE = 10_000


class Ground:
    """The database of a benchmark."""

    def __init__(self, dsn: str, postmaster: int | None) -> None:
        self.dsn, self.postmaster = dsn, postmaster
        self.app = App(dsn, schema=SCHEMA, name="bench")
        schema.migrate(dsn, self.app.catalog)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection for the benchmark itself; the caller closes it."""
        return psycopg.connect(self.dsn, autocommit=True, application_name="fencepost bench")

    def clear(self) -> None:
        """No jobs, no bare tables, and a checkpoint behind us: no reading pays for the one before it."""
        with self.connect() as conn:
            tables = words.SQL(", ").join(words.Identifier(SCHEMA, name) for name in _TABLES)
            conn.execute(words.SQL("TRUNCATE {}").format(tables))
            conn.execute(words.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(words.Identifier(BARE_SCHEMA)))
            self.checkpoint(conn)

    def checkpoint(self, conn: psycopg.Connection[Any]) -> None:
        """If we may: in a named database it takes a right that its owner need not have."""
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            conn.execute("CHECKPOINT")

    def fill(self, jobs: int, *, task: str) -> int:
        """So many jobs are due, in a queue that is paused; gives the id of the last."""
        self.shut()
        with self.connect() as conn:
            last = 0
            for done in range(0, jobs, _AT_ONCE):
                piece = {"n": min(_AT_ONCE, jobs - done), "payload": PAYLOAD, "task": task, "queue": QUEUE}
                last = conn.execute(words.SQL(FILL).format(words.Identifier(SCHEMA)), piece).fetchall()[0][0]
            conn.execute(
                words.SQL("VACUUM ANALYZE {}, {}").format(*(words.Identifier(SCHEMA, t) for t in ("job", "ready")))
            )
            self.checkpoint(conn)
        return last

    def now(self) -> datetime:
        """The database's clock."""
        with self.connect() as conn:
            moment: datetime = conn.execute("SELECT clock_timestamp()").fetchall()[0][0]
        return moment

    def open(self) -> None:
        """Let the workers have the queue."""
        self._pause(paused=False)

    def shut(self) -> None:
        """Nothing more is claimed from it."""
        self._pause(paused=True)

    def _pause(self, *, paused: bool) -> None:
        pause = words.SQL("SELECT {}(%s, %s, 'bench')").format(words.Identifier(SCHEMA, "queue_pause_v1"))
        with self.connect() as conn:
            conn.execute(pause, [QUEUE, paused])

    def await_workers(self, processes: int, within_s: float = 60.0) -> None:
        """Until so many worker processes are there."""
        query = words.SQL("SELECT count(*) FROM {}").format(words.Identifier(SCHEMA, "worker"))
        self._await(query, [], lambda rows: rows[0][0] >= processes, within_s, f"{processes} worker processes")

    def await_end_of(self, job: int, within_s: float) -> None:
        """Until this job has an outcome: one look into a primary key, now and then."""
        query = words.SQL("SELECT FROM {} WHERE id = %s").format(words.Identifier(SCHEMA, "outcome"))
        self._await(query, [job], bool, within_s, "the last job's end")

    def _await(
        self, query: words.Composed, values: list[Any], done: Callable[[list[Any]], bool], within_s: float, what: str
    ) -> list[Any]:
        until = time.monotonic() + within_s
        with self.connect() as conn:
            while not done(rows := conn.execute(query, values).fetchall()):
                if time.monotonic() > until:
                    raise TimeoutError(f"{what} did not come within {within_s:.0f} s")
                time.sleep(0.02)
        return rows

    def furthest(self) -> int:
        """The greatest id of a job that has ended."""
        query = words.SQL("SELECT max(id) FROM {}").format(words.Identifier(SCHEMA, "outcome"))
        with self.connect() as conn:
            last: int = conn.execute(query).fetchall()[0][0]
        return last

    def drained(self, jobs: int, within_s: float) -> float:
        """Seconds from the first claim to the last outcome, by the database's clock, once all have succeeded."""
        query = words.SQL(
            "SELECT count(*), extract(epoch FROM max(finished_at) - min(claimed_at))::float8 FROM {} WHERE state = 'succeeded'"
        ).format(words.Identifier(SCHEMA, "outcome"))
        ((_, seconds),) = self._await(
            query, [], lambda rows: rows[0][0] >= jobs, within_s, f"the success of {jobs} jobs"
        )
        return float(seconds)

    def results(self, jobs: int, within_s: float = 60.0) -> list[float]:
        """The results of so many jobs, numbers, in the order in which they were enqueued."""
        query = words.SQL("SELECT result::text FROM {} WHERE state = 'succeeded' ORDER BY id").format(
            words.Identifier(SCHEMA, "outcome")
        )
        rows = self._await(query, [], lambda rows: len(rows) >= jobs, within_s, f"the success of {jobs} jobs")
        return [float(row[0]) for row in rows]

    def facts(self) -> dict[str, Any]:
        """Machine and settings: a figure without them does not exist."""
        with self.connect() as conn:
            settings = {name: conn.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in _SHOWN}
            version = conn.info.server_version
        return {
            "fencepost": __version__,
            "python": platform.python_version(),
            "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
            "postgresql": f"{version // 10000}.{version % 10000}",
            "cores": os.cpu_count(),
            "machine": f"{platform.system()} {platform.machine()}",
            "load": round(os.getloadavg()[0], 1),
            "settings": settings,
        }


FILL = """
SELECT max(x.id) FROM {}.enqueue_v1(
  ARRAY(SELECT gen_random_uuid()::text FROM generate_series(1, %(n)s)), array_fill(%(task)s::text, ARRAY[%(n)s]),
  array_fill(%(payload)s::text, ARRAY[%(n)s]), array_fill(%(queue)s::text, ARRAY[%(n)s])) x"""


@contextlib.contextmanager
def ground(dsn: str | None) -> Iterator[Ground]:
    """On a server of our own, or in the named database. Gone at the end, also after SIGTERM, SIGHUP and Ctrl-C.

    Raises `UsageError` for a database that has our schemas already, and our other errors for the database's own.
    """
    early.interrupt_on_stops()
    try:
        with _place(dsn) as place:
            yield place
    except psycopg.Error as error:
        raise faults.translate(error) from error


@contextlib.contextmanager
def _place(dsn: str | None) -> Iterator[Ground]:
    if dsn is not None:
        _refuse_what_is_not_ours(dsn)
        try:
            yield Ground(dsn, None)
        finally:
            _drop(dsn)
        return
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        server = EmbeddedServer(Path(folder) / "pg", settings=_settings())
        try:
            server.start()
            yield Ground(server.dsn(), server.status().pid)
        finally:
            server.stop()


def _settings() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return SETTINGS if memory >= _SMALL else SETTINGS | SMALL_MEMORY


def _refuse_what_is_not_ours(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        found: Sequence[Any] = conn.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s)", [[SCHEMA, BARE_SCHEMA]]
        ).fetchall()
    if found:
        raise UsageError(
            f"the database of --dsn has a schema {found[0][0]!r}, which a benchmark would empty; drop it if it was left by one"
        )


def _drop(dsn: str) -> None:
    with contextlib.suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True) as conn:
        for name in (SCHEMA, BARE_SCHEMA):
            conn.execute(words.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(words.Identifier(name)))
