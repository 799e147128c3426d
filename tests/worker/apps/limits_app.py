"""Bodies that take too long, are cancelled, and do not listen, in each executor (test_limits.py, test_cancels.py)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import note, noted

app = App(name="limits")
SOON = RetryPolicy(max_attempts=3, backoff="50ms", jitter=0)
SHORT: dict[str, Any] = {"retry": SOON, "timeout": 0.5}


@app.task("quick", retry=SOON)
async def quick(job: JobContext) -> None:
    note("begin", job)


@app.task("async_slow", **SHORT)
async def async_slow(job: JobContext) -> None:
    """Too slow in its first run."""
    with noted(job):
        await asyncio.sleep(60 if job.run_count == 1 else 0)


@app.task("process_slow", executor="process", retry=SOON, timeout=2.0)
def process_slow(job: JobContext, by: str) -> None:
    """Too slow in its first run: asleep, busy, or telling the worker something all the time."""
    with noted(job):
        ends = time.monotonic() + (60 if job.run_count == 1 else 0)
        while time.monotonic() < ends:
            if by == "sleep":
                time.sleep(60)
            elif by == "progress":
                job.progress(1, 1)
            elif by == "checkpoint":
                job.save_checkpoint({"at": time.time()})


@app.task("deaf", retry=SOON)
async def deaf(job: JobContext, seconds: float) -> str:
    """Swallows every cancellation, in its first run, and returns something at last."""
    with noted(job):
        ends = time.monotonic() + (seconds if job.run_count == 1 else 0)
        while time.monotonic() < ends:
            try:
                await asyncio.sleep(ends - time.monotonic())
            except asyncio.CancelledError:
                note("swallowed", job)
    return "finished all the same"


@app.task("deaf_to_time", retry=SOON, timeout=0.5)
async def deaf_to_time(job: JobContext, seconds: float) -> str:
    return await deaf(job, seconds)


@app.task("async_patient", retry=SOON)
async def async_patient(job: JobContext) -> None:
    """Cleans up when it is cancelled."""
    with noted(job):
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            note("clean", job)


@app.task("thread_patient", retry=SOON)
def thread_patient(job: JobContext) -> None:
    _patient(job)


@app.task("process_patient", retry=SOON, executor="process")
def process_patient(job: JobContext) -> None:
    _patient(job)


def _patient(job: JobContext) -> None:
    with noted(job):
        try:
            while True:
                job.check()
                time.sleep(0.02)
        finally:
            note("clean", job)


@app.task("process_deaf", retry=SOON, executor="process")
def process_deaf(job: JobContext) -> None:
    """Never looks whether somebody wants its end."""
    with noted(job):
        time.sleep(60)


@app.task("thread_heeding", **SHORT)
def thread_heeding(job: JobContext) -> None:
    """Too slow in its first run, and looks now and then whether it should end."""
    with noted(job):
        ends = time.monotonic() + (60 if job.run_count == 1 else 0)
        while time.monotonic() < ends:
            job.check()
            time.sleep(0.02)


@app.task("thread_short", retry=SOON, timeout=1.0)
def thread_short(job: JobContext) -> str:
    """Well within its time."""
    with noted(job):
        time.sleep(0.2)
    return "in time"


@app.task("brief", retry=SOON)
async def brief(job: JobContext, seconds: float) -> None:
    with noted(job):
        await asyncio.sleep(seconds)
