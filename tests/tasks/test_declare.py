"""@app.task: what becomes a task, and what is refused with a sentence."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.errors import UsageError
from fencepost.tasks.context import JobContext
from tasks.declaring import Bench
from tasks.runs import context


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def send(job: JobContext, order_id: int) -> str:
    return f"{job.job_id}/{order_id}"


def render(order_id: int, copies: int = 1) -> int:
    return order_id * copies


def test_a_plain_call_runs_the_function(bench: Bench) -> None:
    task = bench.task("render")(render)

    assert task(7, copies=2) == 14
    assert bench.sent == []


async def _called(bench: Bench) -> str:
    task = bench.task("send")(send)
    return await task(context(), order_id=7)


def test_a_plain_call_of_an_async_task_is_awaited_and_given_a_context(bench: Bench) -> None:
    assert asyncio.run(_called(bench)) == "receipt:7/7"


def test_the_body_gets_the_context_where_it_is_wanted(bench: Bench) -> None:
    @bench.task("between")
    def between(a: int, job: JobContext, b: str = "x") -> tuple[int, str, str]:
        return a, job.job_id, b

    @bench.task("none")
    def none(a: int) -> int:
        return a

    assert between.body()(context(arguments={"a": 1})) == (1, "receipt:7", "x")
    assert none.body()(context(arguments={"a": 1})) == 1


def test_the_executor_follows_the_function_unless_named(bench: Bench) -> None:
    assert bench.task("a")(send).policy.executor == "async"
    assert bench.task("b")(render).policy.executor == "thread"
    assert bench.task("c", executor="process")(render).policy.executor == "process"


def test_a_name_belongs_to_one_function_and_the_refusal_says_to_which(bench: Bench) -> None:
    bench.task("mail")(send)

    with pytest.raises(UsageError, match=r"'mail' is taken by tasks\.test_declare\.send|'mail' is taken by .*send"):
        bench.task("mail")(render)

    assert len(bench.registry) == 1


@pytest.mark.parametrize("name", ["", " ", "a b\n", "a\x00", "x" * 500, 7, None])
def test_a_name_that_cannot_be_stored_is_refused(bench: Bench, name: Any) -> None:
    with pytest.raises(UsageError, match="name"):
        bench.task(name)(render)

    assert len(bench.registry) == 0


def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("options", "function", "said"),
    [
        ({"executor": "process"}, lambda: None, "at module level"),
        ({"executor": "process"}, functools.partial(render, 1), "at module level"),
        ({"executor": "thread"}, send, r"needs a plain function \(def\)"),
        ({"executor": "async"}, render, "needs a coroutine function"),
        ({"executor": "fork"}, render, "executor must be 'async', 'thread' or 'process', not 'fork'"),
        ({}, generator, "is a generator"),
        ({}, Bench, "must be a function"),
        ({}, 7, "must be a function"),
        ({"quue": "mail"}, render, "did you mean 'queue'"),
    ],
)
def test_what_can_never_run_is_refused_at_registration(bench: Bench, options: Any, function: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"task 't'.*{said}"):
        bench.task("t", **options)(function)

    assert len(bench.registry) == 0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"timeout": -1}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"max_crashes": 0}, "max_crashes"),
        ({"priority": "high"}, "priority"),
        ({"version": 0}, "version"),
        ({"on_lost": "forget"}, "on_lost"),
        ({"data": "copy"}, "data"),
        ({"queue": ""}, "queue"),
        ({"retry": 3}, "retry"),
        ({"heartbeat_ttl": 0}, "heartbeat_ttl"),
        ({"lease": 10, "timeout": 20}, "lease"),
        ({"dedup_window": float("nan")}, "dedup_window"),
    ],
)
def test_a_policy_that_can_never_work_names_its_field(bench: Bench, options: Any, field: str) -> None:
    with pytest.raises(UsageError, match=field):
        bench.task("t", **options)(render)

    assert len(bench.registry) == 0


def test_one_function_is_one_task(bench: Bench) -> None:
    task = bench.task("a")(render)

    with pytest.raises(UsageError, match="is a task already"):
        bench.task("b")(task)


def test_the_registry_finds_by_name_and_helps_with_a_slip(bench: Bench) -> None:
    task = bench.task("mail.send", version=3)(send)

    assert bench.registry.get("mail.send") is task
    assert bench.registry.get("mail.sned") is None
    assert bench.registry.versions() == {"mail.send": 3}
    with pytest.raises(UsageError, match=r"did you mean 'mail\.send'"):
        bench.registry.need("mail.sned")
