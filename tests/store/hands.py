"""Small words for the storage tests: jobs to enqueue, fences of what was claimed, three ways to drive one flow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import psycopg

from fencepost.domain.job import ClaimedJob, Enqueued, Fence, NewJob
from fencepost.domain.outcome import Settlement
from fencepost.sql.catalog import Catalog
from fencepost.store import jobs
from fencepost.store.drive import arun, run
from fencepost.store.flow import Flow
from fencepost.store.wire import Wire

T = TypeVar("T")

SQL = Catalog()
TOKEN = 4711


class Driver(Protocol):
    """Something that runs flows on a connection of its own."""

    def run(self, flow: Flow[T]) -> T: ...
    def close(self) -> None: ...


class SyncDriver:
    def __init__(self, dsn: str) -> None:
        self._conn = psycopg.connect(dsn, autocommit=True)

    def run(self, flow: Flow[T]) -> T:
        return run(self._conn, flow)

    def close(self) -> None:
        self._conn.close()


class AsyncDriver:
    def __init__(self, dsn: str) -> None:
        self._runner = asyncio.Runner()
        self._conn = self._runner.run(psycopg.AsyncConnection.connect(dsn, autocommit=True))

    def run(self, flow: Flow[T]) -> T:
        return self._runner.run(arun(self._conn, flow))

    def close(self) -> None:
        self._runner.run(self._conn.close())
        self._runner.close()


def wire_driver(dsn: str) -> Wire:
    return Wire(dsn, deadline=10.0, name="test")


DRIVERS: dict[str, Any] = {"sync": SyncDriver, "async": AsyncDriver, "wire": wire_driver}


def new(job_id: str | None = None, **options: Any) -> NewJob:
    return NewJob(task=options.pop("task", "t"), payload=options.pop("payload", "{}"), job_id=job_id, **options)


def enqueue(driver: Driver, *wanted: NewJob, **options: Any) -> list[Enqueued]:
    return driver.run(jobs.enqueue(SQL, wanted, **options))


def claim(
    driver: Driver, number: int = 10, *, queue: str = "default", token: int = TOKEN, ttl_s: float = 30.0
) -> list[ClaimedJob]:
    return driver.run(jobs.claim(SQL, token, {queue: number}, max_bytes=1 << 24, ttl_s=ttl_s)).jobs


def fence_of(job: ClaimedJob, token: int = TOKEN) -> Fence:
    return Fence(job.id, job.run_count, token)


def settle(
    driver: Driver, claimed: Sequence[ClaimedJob], act: str = "succeed", *, token: int = TOKEN, **more: Any
) -> dict[int, jobs.Settled]:
    again = more.pop("again", False)
    items = [(fence_of(job, token), Settlement(act=act, **more)) for job in claimed]
    return {fence.id: told for fence, told in driver.run(jobs.settle(SQL, items, again=again)).items()}
