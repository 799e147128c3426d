"""A body whose effect lies outside, with a provider that knows keys: a folder in which a name can be made once."""

from __future__ import annotations

import os
from pathlib import Path

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import note

app = App(name="effects")


@app.task("charge", retry=RetryPolicy(max_attempts=5, backoff="50ms", jitter=0))
async def charge(job: JobContext, order: int) -> None:
    """In its first run the process dies after the effect, before anything of it is recorded."""
    note("begin", job)
    key = job.idempotency_key("charge", order)
    try:
        os.close(os.open(Path(os.environ["SCENE_EVENTS"]).with_name(f"charge {key}"), os.O_CREAT | os.O_EXCL))
        note("charged", job, key=key)
    except FileExistsError:
        note("known", job, key=key)
    if job.run_count == 1:
        os.kill(os.getpid(), 9)
