"""Enqueue: jobs per second of single calls and of one big call, beside bare commits and COPY."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from fencepost import App
from fencepost.bench import bare
from fencepost.bench.cost import Meter
from fencepost.bench.ground import ARGUMENTS, SCHEMA, Ground
from fencepost.bench.sides import Reading, Side, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """``single``: jobs that are enqueued one a call; ``bulk``: jobs in one call; ``connections``: callers at once."""

    single: int = 2_000
    bulk: int = 20_000
    connections: int = 8
    rounds: int = 5


def run(ground: Ground, options: EnqueueOptions) -> dict[str, Any]:
    """Measure; the figures as JSON has them."""
    many = options.connections
    sides = {
        "commit": Side("commit", lambda: _bare_inserts(ground, options.single, 1)),
        "single": Side("single", lambda: _single(ground, options.single, 1)),
        f"commit_{many}": Side(f"commit_{many}", lambda: _bare_inserts(ground, options.single, many)),
        f"single_{many}": Side(f"single_{many}", lambda: _single(ground, options.single, many)),
        "copy": Side("copy", lambda: _copy(ground, options.bulk)),
        "bulk": Side("bulk", lambda: _bulk(ground, options.bulk)),
    }
    measure(list(sides.values()), options.rounds)
    pairs = {"single": "commit", f"single_{many}": f"commit_{many}", "bulk": "copy"}
    return {
        "bench": "enqueue",
        **{f"{name}_jobs_per_s": sides[name].rate.rounded()["median"] for name in pairs},
        **{f"{name}_to_{other}": sides[name].over(sides[other]).rounded(3)["median"] for name, other in pairs.items()},
        "single": options.single,
        "bulk": options.bulk,
        "connections": many,
        "rounds": options.rounds,
        "sides": {name: side.as_json(sides.get(pairs.get(name, ""))) for name, side in sides.items()},
        **ground.facts(),
    }


def _bare_inserts(ground: Ground, jobs: int, connections: int) -> Reading:
    bare.fill(ground, 0)
    return bare.at_once(ground, bare.insert, jobs, connections)


def _single(ground: Ground, jobs: int, connections: int) -> Reading:
    """Each call its own transaction, with all that production has: job_id, key lookup, wake-up."""
    ground.clear()
    return bare.at_once(ground, _enqueue, jobs, connections)


def _enqueue(dsn: str, jobs: int, begin: Any) -> bare.Stint:
    app, send = _app(dsn)
    send.enqueue(**ARGUMENTS)  # the pool has its connection
    with bare.stint(begin) as stint:
        for _ in range(jobs):
            send.enqueue(**ARGUMENTS)
    app.close()
    return stint


def _copy(ground: Ground, jobs: int) -> Reading:
    bare.fill(ground, 0)
    meter = Meter(ground.postmaster, own=True)
    seconds = bare.copy(ground, jobs)
    return Reading(jobs, seconds, meter.spent_s())


def _bulk(ground: Ground, jobs: int) -> Reading:
    """One call; making and checking the jobs is a part of it."""
    ground.clear()
    app, send = _app(ground.dsn)
    send.enqueue(**ARGUMENTS)
    meter = Meter(ground.postmaster, own=True)
    began = time.perf_counter()
    answers = app.enqueue_many(send.new(**ARGUMENTS) for _ in range(jobs))
    seconds = time.perf_counter() - began
    cpu = meter.spent_s()
    app.close()
    assert len(answers) == jobs
    return Reading(jobs, seconds, cpu)


def _app(dsn: str) -> tuple[App, Any]:
    app = App(dsn, schema=SCHEMA, name="bench")

    @app.task("bench.async", queue="bench")
    async def send(user_id: int, email: str, template: str, locale: str, n: int, pad: str) -> None:
        """The task of the workers, as a caller knows it."""

    return app, send
