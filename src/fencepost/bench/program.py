"""What the workers of a benchmark run: handlers that do nothing, with everything on that a user would have on.

Typed arguments, the context, two middlewares and an observer; nothing is switched off. Imported by workers only, which
find the database by FENCEPOST_DSN.
"""

from __future__ import annotations

import time
from typing import Any

from fencepost import App, JobContext
from fencepost.tasks.events import JobEnded
from fencepost.tasks.middleware import AsyncNext, SyncNext

app = App.from_env(name="bench")
ended = 0


@app.middleware
async def first(job: JobContext, call_next: AsyncNext) -> Any:
    """Outermost, async."""
    return await call_next(job)


@app.middleware
async def second(job: JobContext, call_next: AsyncNext) -> Any:
    """Inner, async."""
    return await call_next(job)


@app.middleware
def first_sync(job: JobContext, call_next: SyncNext) -> Any:
    """Outermost, for threads and processes."""
    return call_next(job)


@app.middleware
def second_sync(job: JobContext, call_next: SyncNext) -> Any:
    """Inner, for threads and processes."""
    return call_next(job)


@app.on(JobEnded)
def count(_: JobEnded) -> None:
    """As a metric would."""
    global ended  # noqa: PLW0603
    ended += 1


@app.task("bench.async", queue="bench")
async def in_loop(job: JobContext, user_id: int, email: str, template: str, locale: str, n: int, pad: str) -> None:
    """Does nothing, in the event loop."""


@app.task("bench.thread", queue="bench")
def in_thread(job: JobContext, user_id: int, email: str, template: str, locale: str, n: int, pad: str) -> None:
    """Does nothing, in a thread."""


@app.task("bench.process", queue="bench", executor="process")
def in_process(job: JobContext, user_id: int, email: str, template: str, locale: str, n: int, pad: str) -> None:
    """Does nothing, in a job process."""


@app.task("bench.tell", queue="bench")
async def tell(sent: float) -> float:
    """How long ago this was sent: one clock for all processes of a machine."""
    return time.monotonic() - sent
