"""Middleware wraps a run and may change its outcome; observers see and never steer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from fencepost.domain.control import Skip
from fencepost.errors import UsageError
from fencepost.tasks.context import JobContext
from fencepost.tasks.events import Event, JobEnded, JobStarted, Observers
from fencepost.tasks.middleware import AsyncNext, Middlewares, SyncNext
from tasks.runs import context

RUN: dict[str, Any] = {"id": 7, "job_id": "a", "task": "t", "queue": "q", "attempt": 1, "run_count": 1}


@pytest.mark.spec("W10")
def test_the_first_async_middleware_is_the_outermost() -> None:
    seen: list[str] = []
    chain = Middlewares()

    def layer(name: str) -> None:
        @chain
        async def around(job: JobContext, call_next: AsyncNext) -> Any:
            seen.append(f"{name} in")
            result = await call_next(job)
            seen.append(f"{name} out")
            return f"{name}({result})"

    async def body(job: JobContext) -> str:
        seen.append("body")
        return job.job_id

    layer("a")
    layer("b")

    assert asyncio.run(_await(chain.around_async(body))) == "a(b(receipt:7))"
    assert seen == ["a in", "b in", "body", "b out", "a out"]


async def _await(body: AsyncNext) -> Any:
    return await body(context())


@pytest.mark.spec("W10")
def test_the_sync_form_is_the_same_for_threads() -> None:
    def outer(job: JobContext, call_next: SyncNext) -> str:
        return f"outer({call_next(job)})"

    def inner(job: JobContext, call_next: SyncNext) -> str:
        return f"inner({call_next(job)})"

    run = Middlewares([outer, inner]).around_sync(lambda job: job.task)

    assert run(context()) == "outer(inner(receipt.send))"


def test_a_middleware_may_end_the_run_before_the_body() -> None:
    def gate(job: JobContext, call_next: SyncNext) -> Any:
        raise Skip("not today")

    ran: list[JobContext] = []

    with pytest.raises(Skip):
        Middlewares([gate]).around_sync(ran.append)(context())

    assert ran == []


def test_a_one_sided_middleware_is_told_of() -> None:
    def only_sync(job: JobContext, call_next: SyncNext) -> Any:
        return call_next(job)

    chain = Middlewares([only_sync])

    assert chain.uncovered(async_tasks=["b", "a"], sync_tasks=["c"]) == ["a", "b"]
    assert Middlewares().uncovered(async_tasks=["a"], sync_tasks=["c"]) == []


def test_what_is_no_middleware_is_refused() -> None:
    for wrong in (7, lambda: None, lambda job: None):
        with pytest.raises(UsageError, match="job, call_next"):
            Middlewares([wrong])  # type: ignore[list-item]


@pytest.mark.spec("W10")
def test_a_failing_observer_is_logged_and_the_others_still_hear(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers()
    heard: list[Event] = []

    def broken(event: JobStarted) -> None:
        raise RuntimeError("boom")

    observers.on(JobStarted, broken)
    observers.on(JobStarted, heard.append)
    observers.on(Event, heard.append)
    event = JobStarted(**RUN)

    with caplog.at_level(logging.ERROR):
        observers.emit(event)

    assert heard == [event, event]
    assert "broken failed on JobStarted" in caplog.text


def test_observers_hear_what_they_asked_for() -> None:
    observers = Observers()
    heard: list[JobEnded] = []
    observers.on(JobEnded, heard.append)

    observers.emit(JobStarted(**RUN))
    observers.emit(JobEnded(**RUN, act="succeed", state="succeeded", seconds=0.1))

    assert [event.act for event in heard] == ["succeed"]
    assert observers.wanted(JobEnded)
    assert not observers.wanted(JobStarted)


def test_an_observer_that_cannot_be_called_is_refused() -> None:
    async def later(event: JobStarted) -> None: ...

    with pytest.raises(UsageError, match="plain function"):
        Observers().on(JobStarted, later)
    with pytest.raises(UsageError, match="takes an event class"):
        Observers().on("JobStarted", print)  # type: ignore[arg-type]
