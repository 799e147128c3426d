"""A small shop that enqueues: its tasks, its database, and short words for what lies there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from fencepost import App
from fencepost.domain.job import ClaimedJob
from fencepost.tasks.task import PlainTask
from servers import Database
from store.hands import claim, settle, wire_driver

T = TypeVar("T")

RACERS = 16
FIRST = "select 1"  # opens the transaction
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


class Shop:
    """One app on one database. ``ask`` reads with plain SQL, past everything that is tested here."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dsn = database.dsn
        self.app = App(database.dsn)
        self.receipt, self.report = tasks_of(self.app)

    def close(self) -> None:
        self.app.close()

    def ask(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        with self.database.connect() as conn:
            cursor = conn.execute(query, params or None)
            return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *params: Any) -> Any:
        return self.ask(query, *params)[0][0]

    def count(self) -> int:
        """Rows of all jobs; every other table of a job has to agree with it."""
        return int(self.one("select count(*) from fencepost.job"))

    def job_ids(self) -> list[str]:
        """In the order in which they were enqueued."""
        return [row[0] for row in self.ask("select job_id from fencepost.job order by id")]

    def payload(self, job_id: str) -> Any:
        return self.one("select payload from fencepost.job where job_id = %s", job_id)

    def is_consistent(self) -> bool:
        """Whether every job lies in exactly one place and every key has one owner: the database's own check."""
        return not self.ask("select * from fencepost.fsck")

    def tx(self) -> psycopg.Connection[Any]:
        """A connection of the caller's own, not in autocommit, in a transaction that has read something."""
        conn = psycopg.connect(self.dsn)
        conn.execute(FIRST)
        return conn

    async def atx(self) -> psycopg.AsyncConnection[Any]:
        """The same for async code."""
        conn = await psycopg.AsyncConnection.connect(self.dsn)
        await conn.execute(FIRST)
        return conn

    def end(self, job_id: str, act: str) -> None:
        """Run the job and let it end with this act."""
        wire = wire_driver(self.dsn)
        try:
            (job,) = claim(wire, 1)
            assert job.job_id == job_id
            settle(wire, [job], act)
        finally:
            wire.close()

    def claimed(self) -> ClaimedJob:
        wire = wire_driver(self.dsn)
        try:
            return claim(wire, 1)[0]
        finally:
            wire.close()


def tasks_of(app: App) -> tuple[PlainTask[..., None], PlainTask[..., None]]:
    """Two tasks with different defaults, on any app."""

    @app.task("receipt.send")
    def send(order_id: int, note: str = "") -> None:
        raise AssertionError("nothing runs here")

    @app.task("report.render", queue="reports", priority=7, version=3, data="snapshot")
    def render(name: str, at: datetime | None = None) -> None:
        raise AssertionError("nothing runs here")

    return send, render


def race(number: int, work: Callable[[int], T]) -> list[T]:
    """``work(0)`` to ``work(number - 1)`` in threads that are let go together; their results, in order."""
    gate = threading.Barrier(number)

    def go(n: int) -> T:
        gate.wait(30)
        return work(n)

    with ThreadPoolExecutor(number) as threads:
        return list(threads.map(go, range(number)))
