"""Bodies that end in every way there is, in each executor (the stories of test_ends.py)."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable
from typing import Any, NoReturn

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import note

app = App(name="ends")
TWICE = RetryPolicy(max_attempts=2, backoff="50ms", jitter=0)
LEAK: contextvars.ContextVar[str] = contextvars.ContextVar("LEAK", default="")


class Mute(Exception):
    """Neither text nor representation."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise SystemExit(9)


class Unpicklable(Exception):
    """Cannot be sent to another process."""

    def __init__(self, needed: str, also: str) -> None:
        super().__init__(needed + also)
        self.handler = lambda: None

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot be pickled")


class Hostile(dict[str, Any]):
    """A dict that ends whoever looks into it."""

    def items(self) -> NoReturn:
        raise KeyboardInterrupt


def _circular() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def _deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(200_000):
        made = [made]
    return made


RESULTS: dict[str, Callable[[], Any]] = {
    "nul": lambda: {"text": "a\0b"},
    "surrogate": lambda: "half \ud800",
    "nan": lambda: {"share": float("nan")},
    "bytes": lambda: b"abc",
    "object": object,
    "number as key": lambda: {1: 2},
    "circular": _circular,
    "deep": _deep,
    "5 MB": lambda: "x" * 5_000_000,
    "hostile": Hostile,
}


def _recursion() -> Any:
    return _recursion()


def _raises(error: BaseException) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise error

    return act


ERRORS: dict[str, Callable[[], Any]] = {
    "plain": _raises(ValueError("a plain one")),
    "mute": _raises(Mute()),
    "unpicklable": _raises(Unpicklable("a", "b")),
    "nul text": _raises(ValueError("a\0b \ud800")),
    "5 MB text": _raises(ValueError("y" * 5_000_000)),
    "exit": _raises(SystemExit(3)),
    "interrupt": _raises(KeyboardInterrupt()),
    "generator exit": _raises(GeneratorExit()),
    "cancelled error": _raises(asyncio.CancelledError()),
    "stop iteration": _raises(StopIteration(7)),
    "group": _raises(BaseExceptionGroup("many", [ValueError(f"no {n}") for n in range(999)] + [SystemExit(4)])),
    "recursion": _recursion,
    "memory": _raises(MemoryError()),
}


def _end(job: JobContext, how: str) -> Any:
    """``good``, or a key of RESULTS or ERRORS. What an earlier job left in the context would be noted."""
    note("begin", job, leaked=LEAK.get(), how=how)
    LEAK.set(job.job_id)
    if how == "good":
        return {"number": 7, "text": "ä", "none": None}
    act = RESULTS.get(how) or ERRORS[how]
    return act()


@app.task("async_end", retry=TWICE)
async def async_end(job: JobContext, how: str) -> Any:
    await asyncio.sleep(0)
    return _end(job, how)


@app.task("thread_end", retry=TWICE)
def thread_end(job: JobContext, how: str) -> Any:
    return _end(job, how)


@app.task("process_end", retry=TWICE, executor="process")
def process_end(job: JobContext, how: str) -> Any:
    return _end(job, how)


@app.task("gone", retry=TWICE, executor="process")
def gone(job: JobContext, code: int) -> None:
    """Its process ends under it, in its first run."""
    note("begin", job)
    if job.run_count == 1:
        os._exit(code)
