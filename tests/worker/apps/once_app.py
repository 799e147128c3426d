"""Bodies that must not run twice (test_once.py)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from fencepost import App, JobContext, RateLimited, RetryPolicy, Snooze
from worker.apps.scenario_app import note, noted

app = App(name="once")
FEW = RetryPolicy(max_attempts=3, backoff="50ms", jitter=0)
KINDS: dict[str, dict[str, Any]] = {
    "single": {"retry": RetryPolicy(max_attempts=1)},
    "at_most_once": {"retry": FEW, "at_most_once": True},
}


async def _body(job: JobContext, how: str, seconds: float) -> None:
    with noted(job):
        await asyncio.sleep(seconds)
        if how == "raise":
            raise ValueError("no")
        if how == "pause":
            raise RateLimited(0.1)
        if how == "snooze" and job.run_count == 1:
            raise Snooze(0)
        if how == "kill":
            os.kill(os.getpid(), 9)


@app.task("single", **KINDS["single"])
async def single(job: JobContext, how: str = "", seconds: float = 0) -> None:
    await _body(job, how, seconds)


@app.task("at_most_once", **KINDS["at_most_once"])
async def at_most_once(job: JobContext, how: str = "", seconds: float = 0) -> None:
    await _body(job, how, seconds)


@app.task("single_short_time", timeout=0.4, **KINDS["single"])
async def single_short_time(job: JobContext) -> None:
    await _body(job, "", 60)


@app.task("at_most_once_short_time", timeout=0.4, **KINDS["at_most_once"])
async def at_most_once_short_time(job: JobContext) -> None:
    await _body(job, "", 60)


@app.task("plain", retry=FEW)
async def plain(job: JobContext, seconds: float = 0) -> None:
    await _body(job, "", seconds)


@app.task("crash", retry=FEW)
async def crash(job: JobContext) -> None:
    """Takes its process along, in its first run."""
    note("begin", job)
    if job.run_count == 1:
        os.kill(os.getpid(), 9)
