"""Bodies at the edges of slots, limits and processes (the stories of failures/test_edges.py)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any, NoReturn

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import note, noted

app = App(name="edges")
SOON = RetryPolicy(max_attempts=5, backoff="50ms", jitter=0)
ONCE = RetryPolicy(max_attempts=1)


@app.task("quick", retry=SOON)
async def quick(job: JobContext) -> None:
    """Over at once, and not noted."""


@app.task("sleeps", retry=SOON)
async def sleeps(job: JobContext, seconds: float) -> None:
    with noted(job):
        await asyncio.sleep(seconds)


@app.task("blocks", retry=SOON)
async def blocks(job: JobContext, seconds: float) -> None:
    """Holds the event loop."""
    with noted(job):
        time.sleep(seconds)  # noqa: ASYNC251 - the fault itself


@app.task("plain", retry=SOON)
def plain(job: JobContext) -> None:
    with noted(job):
        pass


@app.task("apart", retry=SOON, executor="process")
def apart(job: JobContext, seconds: float) -> None:
    with noted(job):
        time.sleep(seconds)


@app.task("forks", retry=SOON, executor="process")
def forks(job: JobContext) -> None:
    """In its first run it forks, as multiprocessing does, and is killed; the other process keeps all it had open."""
    if job.run_count == 1 and os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    with noted(job):
        if job.run_count == 1:
            os.kill(os.getpid(), 9)


@app.task("overstays", retry=SOON, executor="process", timeout=0.5)
def overstays(job: JobContext) -> None:
    """In its first run it starts a program and waits for it past its time."""
    if job.run_count == 1:
        program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        note("begin", job, child=program.pid)
        program.wait()
    note("begin", job)


@app.task("terminates", retry=SOON, executor="process")
def terminates(job: JobContext) -> Any:
    """Ends a program that it has started in the usual way."""
    program = subprocess.Popen(["sleep", "60"])
    program.terminate()
    return program.wait(20)


@app.task("in_thread", retry=SOON)
async def in_thread(job: JobContext, seconds: float) -> None:
    """Waits in a thread of the loop's own, which nobody can end."""
    with noted(job):
        await asyncio.to_thread(time.sleep, seconds if job.run_count == 1 else 0)


@app.task("saves", retry=SOON)
async def saves(job: JobContext) -> None:
    with noted(job):
        await job.asave_checkpoint({"page": 1})


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@app.task("counts_async", retry=SOON)
async def counts_async(job: JobContext) -> None:
    _count(job)


@app.task("counts_thread", retry=SOON)
def counts_thread(job: JobContext) -> None:
    _count(job)


@app.task("counts_process", retry=SOON, executor="process")
def counts_process(job: JobContext) -> None:
    _count(job)


def _count(job: JobContext) -> None:
    """The sum is no finite number any more; and what is told last says nothing."""
    note("begin", job)
    job.progress(1, text="fine")
    job.progress(2, text=Mute())  # type: ignore[arg-type]
    if job.run_count == 1:
        job.stats.add("sum", 1e308)
        job.stats.add("sum", 1e308)


@app.task("leaves_an_exit", retry=SOON)
async def leaves_an_exit(job: JobContext) -> None:
    """A task that it has started ends with sys.exit()."""

    async def inner() -> NoReturn:
        sys.exit(3)

    with noted(job):
        left = asyncio.create_task(inner())
        await asyncio.sleep(0.5)
        assert left.done()


@app.task("leaves_an_orphan", retry=SOON)
def leaves_an_orphan(job: JobContext) -> None:
    with noted(job):
        subprocess.run(["sh", "-c", "sleep 0.2 &"], check=True)


@app.task("once", retry=ONCE)
async def once(job: JobContext, seconds: float) -> None:
    with noted(job):
        await asyncio.sleep(seconds)


@app.task("once_apart", executor="process", at_most_once=True)
def once_apart(job: JobContext) -> None:
    with noted(job):
        pass
