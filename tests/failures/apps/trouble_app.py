"""Bodies for the stories of trouble."""

from __future__ import annotations

import asyncio
import secrets

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import noted

app = App(name="trouble")


@app.task("raises", retry=RetryPolicy(max_attempts=3, backoff="50ms", jitter=0))
async def raises(job: JobContext) -> None:
    """Fails in its first run."""
    with noted(job):
        if job.run_count == 1:
            raise ValueError("in the first run")


@app.task("fat")
async def fat(job: JobContext, size: int, ballast: str = "") -> str:
    """Returns much that compression cannot make small."""
    with noted(job):
        return secrets.token_urlsafe(size)


@app.task("ok")
async def ok(job: JobContext) -> None:
    """Does nothing."""
    with noted(job):
        pass


@app.task("raises_twice", retry=RetryPolicy(max_attempts=1))
async def raises_twice(job: JobContext) -> None:
    """Fails in its only attempt; run again by somebody, it succeeds."""
    with noted(job):
        if job.run_count == 1:
            raise ValueError("in the first run")


@app.task("hang_once", retry=RetryPolicy(max_attempts=5, backoff="50ms", jitter=0))
async def hang_once(job: JobContext) -> None:
    """Never ends in its first run."""
    with noted(job):
        if job.run_count == 1:
            await asyncio.sleep(600)
