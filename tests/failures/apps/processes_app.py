"""An app that opens a pool and starts threads when it is imported, and bodies that fork, spawn and start programs.

Every body exists for each executor: ``async_forks``, ``thread_forks``, ``process_forks`` and so on.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from psycopg_pool import ConnectionPool

from fencepost import App, JobContext, RetryPolicy
from worker.apps.scenario_app import note

DSN = os.environ["SCENE_DSN"]
app = App(DSN, name="processes")
SOON = RetryPolicy(max_attempts=3, backoff="50ms", jitter=0)
LONG = [sys.executable, "-c", "import time; time.sleep(600)"]

ours = ConnectionPool(DSN, min_size=2, max_size=2, open=True)
work: queue.SimpleQueue[tuple[int, queue.SimpleQueue[int]]] = queue.SimpleQueue()
LOCAL = threading.local()
CONTEXT: contextvars.ContextVar[str] = contextvars.ContextVar("CONTEXT", default="clean")


def _squares() -> None:
    while True:
        number, answer = work.get()
        answer.put(number * number)


for _ in range(3):
    threading.Thread(target=_squares, daemon=True).start()


def in_each_executor(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a plain body three times; the async one blocks the loop, as such bodies do."""

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        async def as_async(job: JobContext, how: str = "") -> Any:
            return body(job, how)

        app.task(f"async_{body.__name__}", retry=SOON, **options)(as_async)
        app.task(f"thread_{body.__name__}", retry=SOON, **options)(body)
        app.task(f"process_{body.__name__}", retry=SOON, executor="process", **options)(body)
        return body

    return declare


def asked() -> int:
    """From the pool of this process and one of its threads; wrong if answers are mixed up."""
    answer: queue.SimpleQueue[int] = queue.SimpleQueue()
    work.put((7, answer))
    with ours.connection() as conn:
        row = conn.execute("SELECT %s::int", [answer.get(timeout=10)]).fetchone()
    assert row is not None
    return int(row[0])


def put_by_the_app(job_id: str) -> None:
    """In a copy: its own connection, not the one that its parent has."""
    as_quick.using(job_id=job_id).enqueue()


def wait_for_ever() -> None:
    while True:
        time.sleep(60)


@app.task("quick", retry=SOON)
async def as_quick(job: JobContext) -> str:
    note("begin", job)
    return job.job_id


@in_each_executor()
def uses_pool(job: JobContext, how: str = "") -> int:
    return asked()


@in_each_executor()
def multiplies(job: JobContext, how: str = "") -> list[Any]:
    """``how`` the copy is made. One that ends by itself, one that uses the app, one that is told to end."""
    as_quick.using(job_id=f"{job.job_id}:before").enqueue()
    made: Any = multiprocessing.get_context(how)
    copy = made.Process(target=put_by_the_app, args=(f"{job.job_id}:copy",))
    copy.start()
    copy.join(20)
    stubborn = made.Process(target=wait_for_ever)
    stubborn.start()
    time.sleep(0.2)
    stubborn.terminate()
    stubborn.join(10)
    codes = [copy.exitcode, stubborn.exitcode]
    if stubborn.is_alive():
        stubborn.kill()
    return [*codes, asked()]


@in_each_executor()
def forks(job: JobContext, how: str = "") -> list[Any]:
    """The copy leaves the body as no copy should: it returns, raises, or exits."""
    pid = os.fork()
    if pid == 0:
        if how == "raises":
            raise ValueError("in the copy")
        if how == "exits":
            sys.exit(0)
        return ["the copy"]
    code = None
    ends = time.monotonic() + 5
    while code is None and time.monotonic() < ends:
        found, status = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if found else None
        time.sleep(0.01)
    if code is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return ["ours", code]


@in_each_executor()
def starts(job: JobContext, how: str = "") -> None:
    """A program that would outlive its body by ten minutes, and one that has ended and nobody has waited for."""
    child = subprocess.Popen(LONG)
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["sh", "-c", "(true) & (sleep 0.1) & exit 0"], check=True, timeout=10)
    note("started", job, child=child.pid)


@in_each_executor()
def ends_another(job: JobContext, how: str = "") -> list[int]:
    """Programs that it starts can be told to end."""
    codes = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with subprocess.Popen(["sleep", "600"]) as one:
            time.sleep(0.1)
            one.send_signal(number)
            try:
                codes.append(one.wait(5))
            except subprocess.TimeoutExpired:
                one.kill()
                codes.append(0)
    return codes


@app.task("parent", retry=SOON, executor="process", timeout=3.0)
def parent(job: JobContext, how: str = "") -> None:
    """Ends badly in its first run, and leaves a program that runs."""
    if job.run_count == 1:
        if how == "dies after a fork":
            copy = multiprocessing.get_context("fork").Process(target=wait_for_ever)
            copy.start()
            note("started", job, child=copy.pid)
        else:
            note("started", job, child=subprocess.Popen(LONG).pid)
        if how != "hangs":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    note("again", job)


@in_each_executor()
def leaves(job: JobContext, how: str = "") -> dict[str, Any]:
    """What an earlier job has left here; then leaves its own."""
    found = {
        "environ": os.environ.get("LEFT_BY"),
        "cwd": os.path.basename(os.getcwd()),
        "thread": getattr(LOCAL, "by", None),
        "context": CONTEXT.get(),
    }
    os.environ["LEFT_BY"] = LOCAL.by = job.job_id
    os.chdir("/tmp" if how == "moves" else os.getcwd())
    CONTEXT.set(job.job_id)
    return found


@app.task("patient", retry=SOON)
async def patient(job: JobContext, seconds: float) -> None:
    note("begin", job)
    await asyncio.sleep(seconds)
