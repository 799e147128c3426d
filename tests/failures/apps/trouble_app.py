"""Bodies for the stories of trouble."""

from __future__ import annotations

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
