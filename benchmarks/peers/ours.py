"""fencepost's readings, behind the same gate and by the same clock as its peers'."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fencepost import App
from fencepost.bench import bare, latency
from fencepost.bench.cost import Meter
from fencepost.bench.crew import worker
from fencepost.bench.ground import ARGUMENTS, QUEUE, SCHEMA, Ground
from fencepost.bench.sides import Reading
from peers.places import locked

BEST = ("--slots=32",)
SETTINGS = {"best": list(BEST), "default": "nothing is set", "latency": ["--slots=8"]}
_WITHIN_S = 300.0


def drain(ground: Ground, jobs: int, words: Sequence[str]) -> Reading:
    """One worker process of the command that users run, with typed arguments, two middlewares and an observer."""
    ground.clear()
    last = ground.fill(jobs, task="bench.async")
    ground.open()
    with locked(ground.dsn, (f"{SCHEMA}.ready",)) as release, worker(ground, words) as pid:
        meter = Meter(ground.postmaster, pid)
        release()
        began = time.perf_counter()
        ground.await_end_of(last, _WITHIN_S)
        ground.drained(jobs, _WITHIN_S)
        return Reading(jobs, time.perf_counter() - began, meter.spent_s() if ground.postmaster else None)


def bare_drain(ground: Ground, jobs: int) -> Reading:
    """What a careful person would write by hand, without a worker."""
    bare.fill(ground, jobs)
    return Reading(jobs, bare.drain(ground))


def enqueue(ground: Ground, jobs: int) -> Reading:
    """One call; checking the jobs is a part of it, making the arguments is not."""
    ground.clear()
    app = App(ground.dsn, schema=SCHEMA, name="bench")

    @app.task("bench.async", queue=QUEUE)
    async def send(user_id: int, email: str, template: str, locale: str, n: int, pad: str) -> None:
        """The task of the workers, as a caller knows it."""

    send.enqueue(**ARGUMENTS)
    made: list[dict[str, Any]] = [ARGUMENTS | {"n": n} for n in range(jobs)]
    began = time.perf_counter()
    answers = app.enqueue_many(send.new(**arguments) for arguments in made)
    seconds = time.perf_counter() - began
    app.close()
    assert len(answers) == jobs
    return Reading(jobs, seconds)


def wait(ground: Ground, jobs: int, per_s: float) -> dict[str, float]:
    """Milliseconds from before the enqueue call to the handler's first line, with an idle worker."""
    found = latency.run(ground, latency.LatencyOptions(jobs=jobs, per_s=per_s, rounds=1))
    return {"p50_ms": float(found["p50_ms"]), "p99_ms": float(found["p99_ms"])}
