"""Bodies for rows that nobody expected: they say that they ran, and take what the rows hold."""

from __future__ import annotations

from typing import Any

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import noted

app = App(name="rows")
SOON = RetryPolicy(max_attempts=3, backoff="50ms", jitter=0)


@app.task("noop", retry=SOON)
async def noop(job: JobContext) -> None:
    with noted(job):
        pass


@app.task("other", retry=SOON)
async def other(job: JobContext) -> None:
    with noted(job):
        pass


@app.task("takes", retry=SOON)
async def takes(job: JobContext, number: int, words: list[str] | None = None) -> None:
    with noted(job):
        pass


@app.task("anything", retry=SOON)
async def anything(job: JobContext, data: Any) -> None:
    with noted(job):
        pass


@app.task("thread", retry=SOON)
def thread(job: JobContext, data: Any = None) -> None:
    """Looks at everything that the row says of itself."""
    with noted(job):
        str((job.tags, job.meta, job.checkpoint, job.deadline))


@app.task("process", retry=SOON, executor="process")
def process(job: JobContext, data: Any = None) -> None:
    with noted(job):
        str((job.tags, job.meta, job.checkpoint, job.deadline))


@app.task("raises", retry=SOON)
async def raises(job: JobContext) -> None:
    with noted(job):
        raise ValueError("always")
