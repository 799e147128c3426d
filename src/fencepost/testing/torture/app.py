"""What the workers of a torture run: bodies of every executor that tell what they do, and ask the sink for one effect.

The folder is named by FENCEPOST_TORTURE, which the crew sets; each process appends to a file of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any, TypedDict

from fencepost import App, JobContext, RetryPolicy, Snooze
from fencepost.domain.control import Cancelled
from fencepost.testing.torture.notes import Notes
from fencepost.testing.torture.settings import SCHEMA, Settings
from fencepost.testing.torture.sink import SOCKET

_FOLDER = Path(os.environ["FENCEPOST_TORTURE"])
_SETTINGS = Settings.read(_FOLDER)


class _Common(TypedDict):
    retry: RetryPolicy
    max_crashes: int


_COMMON: _Common = {
    "retry": RetryPolicy(max_attempts=_SETTINGS.max_attempts, backoff="100ms", jitter=0),
    "max_crashes": _SETTINGS.max_crashes,
}
_notes: dict[int, Notes] = {}

app = App(name="torture", schema=SCHEMA)


def note(ev: str, job: JobContext, **more: Any) -> None:
    """One event of this process; job processes are made by exec, but a fork would also get a file of its own."""
    pid = os.getpid()
    if pid not in _notes:
        _notes[pid] = Notes(_FOLDER / f"worker-{pid}.jsonl")
    _notes[pid].add(ev=ev, pid=pid, job_id=job.job_id, id=job.id, run=job.run_count, **more)


class Told:
    """Notes the beginning of a run, and how it ended."""

    def __init__(self, job: JobContext) -> None:
        self._job = job

    def __enter__(self) -> None:
        token = self._job.fence.token
        note("start", self._job, token=token, attempt=self._job.attempt)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        stopped = kind is not None and issubclass(kind, asyncio.CancelledError | Cancelled)
        if stopped:
            note("told", self._job)
        note("end", self._job, how="returned" if kind is None else "cancelled" if stopped else "raised")


def _signed(job: JobContext) -> dict[str, Any]:
    """The result names the run that has made it: an outcome must be its own run's."""
    return {"run": job.run_count, "token": job.fence.token, "pid": os.getpid()}


def _choice(job: JobContext, of: int) -> int:
    """The same for the same run, in every process."""
    return hashlib.sha256(f"{_SETTINGS.seed}:{job.job_id}:{job.run_count}".encode()).digest()[0] % of


def _line(job: JobContext) -> bytes:
    note("effect", job)
    return json.dumps({"job_id": job.job_id, "run": job.run_count, "pid": os.getpid()}).encode() + b"\n"


async def _effect(job: JobContext) -> None:
    reader, writer = await asyncio.open_unix_connection(_FOLDER / SOCKET)
    try:
        writer.write(_line(job))
        if not await reader.readline():
            message = "the sink did not answer"
            raise ConnectionError(message)
    finally:
        writer.close()


def _effect_now(job: JobContext) -> None:
    with socket.socket(socket.AF_UNIX) as conn:
        conn.settimeout(10)
        conn.connect(str(_FOLDER / SOCKET))
        conn.sendall(_line(job))
        if not conn.recv(16):
            message = "the sink did not answer"
            raise ConnectionError(message)


@app.task("quick", queue="fast", **_COMMON)
async def quick(job: JobContext) -> dict[str, Any]:
    """Most of the load. One in forty fails with a secret in its words, one in forty asks for a pause."""
    with Told(job):
        chance = _choice(job, 40)
        if chance == 0:
            message = f"refused: password={_SETTINGS.secret}"
            raise RuntimeError(message)
        if chance == 1:
            raise Snooze(0.2)
        await asyncio.sleep(0)
        await _effect(job)
        return _signed(job)


@app.task("slow", queue="slow", **_COMMON)
async def slow(job: JobContext, seconds: float, early: bool) -> dict[str, Any]:
    """Longer than a lease; its effect comes first or last."""
    with Told(job):
        if early:
            await _effect(job)
        job.progress(0, 1)
        await asyncio.sleep(seconds)  # in one piece: a process that stood still ends it at once
        job.progress(1, 1)
        if not early:
            await _effect(job)
        return _signed(job)


@app.task("threaded", queue="threads", **_COMMON)
def threaded(job: JobContext, seconds: float) -> dict[str, Any]:
    """A body that looks whether it is still wanted."""
    with Told(job):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            job.check()
            time.sleep(0.02)
        _effect_now(job)
        return _signed(job)


@app.task("apart", queue="apart", executor="process", **_COMMON)
def apart(job: JobContext, seconds: float) -> dict[str, Any]:
    """A body in a process of its own."""
    with Told(job):
        time.sleep(seconds)
        _effect_now(job)
        return _signed(job)
