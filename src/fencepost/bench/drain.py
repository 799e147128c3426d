"""Drain: how fast workers empty a queue of jobs that do nothing, beside bare SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fencepost.bench import bare
from fencepost.bench.cost import Meter
from fencepost.bench.crew import worker
from fencepost.bench.ground import Ground
from fencepost.bench.sides import Reading, Side, measure

Handler = Literal["async", "thread", "process"]
_WITHIN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """``slots`` and ``processes`` as for ``fencepost worker``; ``defaults`` measures its defaults beside them."""

    jobs: int = 20_000
    rounds: int = 5
    handler: Handler = "async"
    slots: int = 32
    processes: int = 1
    defaults: bool = False


def run(ground: Ground, options: DrainOptions) -> dict[str, Any]:
    """Measure; the figures as JSON has them."""
    tuned = Side("fencepost", lambda: _workers(ground, options, [f"--slots={options.slots}"], options.processes))
    sides = [Side("bare", lambda: _bare(ground, options.jobs)), tuned]
    if options.defaults:
        sides.append(Side("fencepost_defaults", lambda: _workers(ground, options, [], 1)))
    measure(sides, options.rounds)
    reference = sides[0]
    ratio = tuned.over(reference)
    return {
        "bench": "drain",
        "jobs_per_s": tuned.rate.rounded()["median"],
        "bare_jobs_per_s": reference.rate.rounded()["median"],
        "ratio_to_bare": ratio.rounded(3)["median"],
        "cpu_s_per_10k": tuned.cpu.rounded(3)["median"] if tuned.cpu else None,
        "spread": {"jobs_per_s": tuned.rate.edges(), "ratio_to_bare": ratio.edges(3)},
        "handler": options.handler,
        "jobs": options.jobs,
        "rounds": options.rounds,
        "slots": options.slots,
        "processes": options.processes,
        "batch_of_bare": bare.BATCH,
        "sides": {side.name: side.as_json(reference) for side in sides},
        **ground.facts(),
    }


def _bare(ground: Ground, jobs: int) -> Reading:
    bare.fill(ground, jobs)
    meter = Meter(ground.postmaster, own=True)
    seconds = bare.drain(ground)
    return Reading(jobs, seconds, meter.spent_s())


def _workers(ground: Ground, options: DrainOptions, words: list[str], processes: int) -> Reading:
    ground.clear()
    last = ground.fill(options.jobs, task=f"bench.{options.handler}")
    with worker(ground, words, processes=processes) as pid:
        meter = Meter(ground.postmaster, pid)
        ground.open()
        ground.await_end_of(last, _WITHIN_S)
        seconds = ground.drained(options.jobs, _WITHIN_S)
        cpu = meter.spent_s()
    return Reading(options.jobs, seconds, cpu)
