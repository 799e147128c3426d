"""Bodies of every kind for storms of signals, and small ones for long lives. All become well-behaved when it is calm."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from pathlib import Path
from typing import Any

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import note

app = App(name="storm")
SOON = RetryPolicy(max_attempts=5, backoff="50ms", jitter=0)
ONCE = RetryPolicy(max_attempts=1)
FULL = 0.2
CALM = Path(os.environ["SCENE_EVENTS"]).with_name("calm")


@app.task("async_works", retry=SOON)
async def async_works(job: JobContext, seconds: float) -> None:
    if not CALM.exists():
        await asyncio.sleep(seconds)


@app.task("thread_works", retry=SOON)
def thread_works(job: JobContext, seconds: float) -> None:
    if not CALM.exists():
        time.sleep(seconds)


@app.task("process_works", retry=SOON, executor="process")
def process_works(job: JobContext, seconds: float) -> None:
    if not CALM.exists():
        time.sleep(seconds)


@app.task("async_deaf", retry=SOON)
async def async_deaf(job: JobContext, seconds: float) -> None:
    """Swallows what should end it."""
    while not CALM.exists():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


# ------------------------------------------------------------------------------------------------------------ long lives


@app.task("async_small", retry=ONCE)
async def async_small(job: JobContext, how: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return _small(how)


@app.task("thread_small", retry=ONCE)
def thread_small(job: JobContext, how: str) -> dict[str, Any]:
    return _small(how)


@app.task("process_small", retry=ONCE, executor="process")
def process_small(job: JobContext, how: str) -> dict[str, Any]:
    return _small(how)


def _small(how: str) -> dict[str, Any]:
    ballast = ["x" * 1000] * 20
    if how == "fails":
        raise ValueError(f"with {len(ballast)} pieces in its frame")
    return {"pieces": len(ballast)}


@app.task("async_late", retry=ONCE, timeout=0.05)
async def async_late(job: JobContext) -> None:
    await asyncio.sleep(60)


@app.task("thread_late", retry=ONCE, timeout=0.05)
def thread_late(job: JobContext) -> None:
    while True:
        job.check()
        time.sleep(0.01)


@app.task("measures", retry=ONCE)
async def measures(job: JobContext) -> None:
    gc.collect()
    note(
        "measured", job, tasks=len(asyncio.all_tasks()), threads=threading.active_count(), objects=len(gc.get_objects())
    )


# ------------------------------------------------------------------------------------------------------------ their time


@app.task("async_exact", retry=SOON, timeout=FULL)
async def async_exact(job: JobContext, seconds: float) -> None:
    """Takes as long as it may, or a little more, in its first run."""
    await asyncio.sleep(seconds if job.run_count == 1 else 0)


@app.task("thread_exact", retry=SOON, timeout=FULL)
def thread_exact(job: JobContext, seconds: float) -> None:
    time.sleep(seconds if job.run_count == 1 else 0)


@app.task("thread_together", retry=SOON)
def thread_together(job: JobContext) -> None:
    """Ends when it is calm."""
    note("begin", job)
    while not CALM.exists():
        time.sleep(0.05)


@app.task("async_together", retry=SOON)
async def async_together(job: JobContext) -> None:
    note("begin", job)
    while not CALM.exists():
        await asyncio.sleep(0.05)


@app.task("async_endless", retry=SOON, timeout=1.0)
async def async_endless(job: JobContext) -> None:
    """These do not end in their first run."""
    if job.run_count == 1:
        await asyncio.Event().wait()


@app.task("deaf_endless", retry=SOON, timeout=1.0)
async def deaf_endless(job: JobContext) -> None:
    while job.run_count == 1:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@app.task("thread_endless", retry=SOON, timeout=1.0)
def thread_endless(job: JobContext) -> None:
    if job.run_count == 1:
        threading.Event().wait()


@app.task("process_endless", retry=SOON, timeout=1.0, executor="process")
def process_endless(job: JobContext) -> None:
    if job.run_count == 1:
        threading.Event().wait()


@app.task("crowd", retry=SOON)
async def crowd(job: JobContext, seconds: float) -> None:
    await asyncio.sleep(seconds)
