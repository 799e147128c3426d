"""The shop's tasks: each asks the provider for an object, or ends in a way of its own.

A body notes its beginning and end as a line of JSON in the file SCENE_EVENTS, and may wait at a gate that the test opens.
"""

from __future__ import annotations

import os
import time
from uuid import uuid4

from fencepost import App, JobContext, Permanent, RetryPolicy
from incidents.apps.outside import make, wait_at
from worker.apps.scenario_app import note, noted

app = App.from_env(name="shop", classify=[(422, "INVALID_PAYLOAD", "permanent")])
THREE = RetryPolicy(max_attempts=3, backoff="300ms, 900ms", jitter=0)
SOON = RetryPolicy(max_attempts=5, backoff="100ms", jitter=0)


@app.task("send")
def send(job: JobContext, name: str, gate: str | None = None) -> int:
    """With the default policy: the first pause is 30 s."""
    with noted(job):
        if gate is not None:
            wait_at(gate, job)
        return make(job.idempotency_key("send", name), name)


@app.task("send.impatiently", retry=SOON)
def send_impatiently(job: JobContext, name: str) -> int:
    """A client that waits for two seconds."""
    with noted(job):
        return make(job.idempotency_key("send", name), name, patience=2.0)


@app.task("send.thrice", retry=THREE)
def send_thrice(job: JobContext, name: str) -> int:
    with noted(job):
        return make(job.idempotency_key("send", name), name)


@app.task("send.and.linger", retry=SOON)
def send_and_linger(job: JobContext, name: str, careless: bool = False) -> int:
    """The first run has its object and does not come to tell it. ``careless``: a new key in each run."""
    with noted(job):
        made = make(uuid4().hex if careless else job.idempotency_key("send", name), name)
        note("made", job, object=made)
        if job.run_count == 1:
            wait_at("never", job)
        return made


@app.task("wait", retry=SOON, heartbeat_ttl="4s")
def wait(job: JobContext, gate: str) -> str:
    """The first run waits at a gate, later ones do not."""
    with noted(job):
        if job.run_count == 1:
            wait_at(gate, job)
        return "waited"


@app.task("count", retry=SOON)
async def count(job: JobContext, number: int) -> int:
    note("count", job)
    return number


@app.task("brief", retry=SOON)
def brief(job: JobContext) -> None:
    with noted(job):
        time.sleep(0.02)


@app.task("refuse")
def refuse(job: JobContext) -> None:
    with noted(job):
        raise Permanent("there is no such order", code="INVALID_ORDER")


@app.task("kill", retry=RetryPolicy(max_attempts=50, backoff="100ms", jitter=0), max_crashes=2)
def kill(job: JobContext) -> None:
    """Takes its process along each time."""
    note("begin", job)
    os.kill(os.getpid(), 9)


@app.task("nothing")
async def nothing(number: int) -> None:
    """For the backlog."""
