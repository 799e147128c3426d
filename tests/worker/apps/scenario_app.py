"""The user's app of the fault stories: bodies that block, hang, spin, hold the GIL, fork and stop.

Each body notes its beginning and end as a line of JSON in the file SCENE_EVENTS.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import subprocess
import sys
import threading
import time
from typing import Any

from fencepost import App, Cancelled, JobContext, RetryPolicy, Snooze

app = App(name="scenarios")
SOON = RetryPolicy(max_attempts=5, backoff="100ms", jitter=0)
ONCE = RetryPolicy(max_attempts=1)


def note(what: str, job: JobContext, **more: Any) -> None:
    """Appended by one write: lines of several processes do not mix."""
    line = {"what": what, "job": job.job_id, "run": job.run_count, "pid": os.getpid(), "at": time.time(), **more}
    fd = os.open(os.environ["SCENE_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


class noted:  # noqa: N801 - reads as a word
    """Notes begin, and end or how it was broken off."""

    def __init__(self, job: JobContext) -> None:
        self.job = job

    def __enter__(self) -> None:
        note("begin", self.job)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        note("end" if kind is None else "broken", self.job, by=kind.__name__ if kind else None)


@app.task("noop", retry=SOON)
async def noop(job: JobContext) -> None:
    with noted(job):
        pass


@app.task("sleep", retry=SOON)
async def sleep(job: JobContext, seconds: float, then: float | None = None) -> None:
    """The first run sleeps ``seconds``, later ones ``then``."""
    with noted(job):
        await asyncio.sleep(seconds if job.run_count == 1 or then is None else then)


@app.task("sleep_once", retry=ONCE)
async def sleep_once(job: JobContext, seconds: float) -> None:
    with noted(job):
        await asyncio.sleep(seconds)


@app.task("block_loop", retry=SOON)
async def block_loop(job: JobContext, seconds: float) -> None:
    with noted(job):
        time.sleep(seconds)  # noqa: ASYNC251 - the fault itself


@app.task("regex", retry=SOON)
async def regex(job: JobContext, seconds: float) -> None:
    """Catastrophic: each match holds the GIL for longer than the one before, until it took so long."""
    with noted(job):
        length, took = 16, 0.0
        while took < seconds:
            length += 1
            began = time.monotonic()
            re.match(r"(a+)+$", "a" * length + "b")
            took = time.monotonic() - began


@app.task("gil_sleep", retry=SOON)
async def gil_sleep(job: JobContext, seconds: float) -> None:
    """Holds the GIL without using the CPU: a C extension that forgot to release it around a blocking call."""
    with noted(job):
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))


@app.task("gil_hang", retry=SOON, max_duration=1.5)
async def gil_hang(job: JobContext, seconds: float) -> None:
    """The same past its maximum duration, in its first run."""
    with noted(job):
        if job.run_count == 1:
            ctypes.PyDLL(None).usleep(int(seconds * 1e6))


@app.task("thread_forever", retry=SOON, timeout=0.5)
def thread_forever(job: JobContext) -> None:
    """A thread that never returns, in its first run."""
    with noted(job):
        if job.run_count == 1:
            threading.Event().wait()


@app.task("thread_sleep", retry=SOON)
def thread_sleep(job: JobContext, seconds: float) -> None:
    with noted(job):
        time.sleep(seconds)


@app.task("thread_late", retry=SOON, timeout=0.5)
def thread_late(job: JobContext, seconds: float) -> None:
    """A thread that returns after its time, in its first run."""
    with noted(job):
        if job.run_count == 1:
            time.sleep(seconds)


@app.task("busy_thread", retry=SOON)
def busy_thread(job: JobContext, seconds: float) -> None:
    with noted(job):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            sum(range(2000))


@app.task("family", retry=SOON, executor="process")
def family(job: JobContext) -> None:
    """In its first run: a child in our group, and a grandchild in a session of its own; all would live for ten minutes."""
    with noted(job):
        if job.run_count == 1:
            long = [sys.executable, "-c", "import time; time.sleep(600)"]
            child = subprocess.Popen(long)
            stray = subprocess.Popen(long, start_new_session=True)
            note("family", job, child=child.pid, stray=stray.pid)
            time.sleep(600)


@app.task("process_sleep", retry=SOON, executor="process")
def process_sleep(job: JobContext, seconds: float) -> None:
    with noted(job):
        time.sleep(seconds)


@app.task("stoppable", retry=SOON)
async def stoppable(job: JobContext) -> None:
    """Writes a checkpoint when the worker stops, and hands itself back."""
    with noted(job):
        if job.checkpoint is not None:
            note("resumed", job, checkpoint=job.checkpoint)
            return
        while not job.stopping:
            await asyncio.sleep(0.02)
        await job.asave_checkpoint({"half": True})
        raise Snooze(0)


@app.task("cancellable", retry=SOON)
async def cancellable(job: JobContext) -> None:
    with noted(job):
        while True:
            if job.cancelled:
                raise Cancelled
            await asyncio.sleep(0.02)


@app.task("stubborn", retry=SOON)
async def stubborn(job: JobContext, seconds: float) -> None:
    """Swallows every cancellation."""
    with noted(job):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                note("swallowed", job)


@app.task("killer", retry=RetryPolicy(max_attempts=10, backoff="100ms", jitter=0), max_crashes=2)
async def killer(job: JobContext) -> None:
    """Takes its process down with it."""
    note("begin", job)
    os.kill(os.getpid(), 9)
