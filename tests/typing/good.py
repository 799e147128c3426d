"""User code that must type-check; read by mypy, never run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, assert_type

import psycopg

from fencepost import App, Enqueued, JobContext, RetryPolicy, current_job
from fencepost.domain.job import NewJob
from fencepost.tasks.events import JobEnded
from fencepost.tasks.middleware import AsyncNext, SyncNext

app = App("postgresql:///shop")


@app.task("receipt.send", queue="mail", retry=RetryPolicy(max_attempts=5, backoff="30s, 2m, 10m, 30m"), timeout="2m")
async def send_receipt(job: JobContext, order_id: int, note: str = "") -> str:
    assert_type(job.remaining(), float | None)
    return note


@app.task("report.render", executor="process", max_duration="1h", at_most_once=True, on_lost="in_doubt")
def render(order_id: int) -> int:
    current_job().check()
    return order_id


@app.middleware
async def timed(job: JobContext, call_next: AsyncNext) -> Any:
    return await call_next(job)


@app.middleware
def timed_sync(job: JobContext, call_next: SyncNext) -> Any:
    return call_next(job)


@app.on(JobEnded)
def ended(event: JobEnded) -> None:
    print(event.act)


def sync_code(conn: psycopg.Connection[Any], job: JobContext) -> None:
    assert_type(send_receipt.enqueue(order_id=7), Enqueued)
    assert_type(send_receipt.enqueue(7, note="x"), Enqueued)
    assert_type(render.using(tx=conn, job_id="r:7", run_at=datetime.now(UTC), tags=["a"]).enqueue(7), Enqueued)
    assert_type(send_receipt.new(order_id=1), NewJob)
    assert_type(app.enqueue_many((send_receipt.new(order_id=n) for n in range(3)), tx=conn), list[Enqueued])
    assert_type(render(7), int)
    with conn.transaction():
        send_receipt.using(tx=conn).using(delay="2m", meta={"a": 1}).enqueue(order_id=7)


async def async_code(conn: psycopg.AsyncConnection[Any], job: JobContext) -> None:
    assert_type(await send_receipt.aenqueue(order_id=7), Enqueued)
    assert_type(await send_receipt.using(tx=conn).aenqueue(order_id=7), Enqueued)
    assert_type(await send_receipt(job, order_id=7), str)
    assert_type(await app.aenqueue_many([render.new(1)], tx=conn), list[Enqueued])
