"""An app whose import takes longer than its bodies may (test_limits.py)."""

from __future__ import annotations

import time

from fencepost import App, JobContext, RetryPolicy

time.sleep(1.5)
app = App(name="heavy")


@app.task("light", executor="process", timeout=1.0, retry=RetryPolicy(max_attempts=3, backoff="50ms", jitter=0))
def light(job: JobContext) -> None:
    """Well within its time."""
    time.sleep(0.3)
