"""Latency: from the enqueue call to the first line of the handler, of single jobs and idle workers."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass
from typing import Any

from fencepost import App
from fencepost.bench import bare
from fencepost.bench.crew import worker
from fencepost.bench.figures import Spread, percentile
from fencepost.bench.ground import SCHEMA, Ground


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyOptions:
    """``jobs`` a round, ``per_s`` a second with jitter."""

    jobs: int = 200
    per_s: float = 20.0
    rounds: int = 5
    slots: int = 8


def run(ground: Ground, options: LatencyOptions) -> dict[str, Any]:
    """Measure; milliseconds. ``commit_ms``: a commit of one row of bare SQL, just before each round."""
    commits, rounds = [], []
    for _ in range(options.rounds):
        commits.append(statistics.median(bare.commit_s(ground)) * 1000)
        rounds.append([wait * 1000 for wait in _round(ground, options)])
    p50, p99 = (Spread.of(percentile(waits, share) for waits in rounds) for share in (0.5, 0.99))
    commit = Spread.of(commits)
    over = Spread.of(percentile(waits, 0.5) - 2 * one for waits, one in zip(rounds, commits, strict=True))
    return {
        "bench": "latency",
        "p50_ms": p50.rounded(2)["median"],
        "p99_ms": p99.rounded(2)["median"],
        "commit_ms": commit.rounded(2)["median"],
        "p50_over_two_commits_ms": over.rounded(2)["median"],
        "spread": {"p50_ms": p50.rounded(2), "p99_ms": p99.rounded(2), "commit_ms": commit.rounded(2)},
        "jobs": options.jobs,
        "rounds": options.rounds,
        "per_s": options.per_s,
        **ground.facts(),
    }


def _round(ground: Ground, options: LatencyOptions) -> list[float]:
    ground.clear()
    ground.open()
    app = App(ground.dsn, schema=SCHEMA, name="bench")

    @app.task("bench.tell", queue="bench")
    async def tell(sent: float) -> None:
        """The worker's own says what it took."""

    with worker(ground, [f"--slots={options.slots}"]):
        for _ in range(options.jobs + _WARM):
            tell.enqueue(time.monotonic())
            time.sleep(random.uniform(0.5, 1.5) / options.per_s)  # noqa: S311 - jitter
        waits = ground.results(options.jobs + _WARM)
    app.close()
    return waits[_WARM:]


_WARM = 10
