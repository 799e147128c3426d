"""Backlog: the same drain with much waiting behind it and much finished beside it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from psycopg import sql as words

from fencepost.bench.cost import Meter
from fencepost.bench.crew import worker
from fencepost.bench.ground import SCHEMA, Ground
from fencepost.bench.sides import Reading, Side, measure
from fencepost.errors import FencepostError, UsageError

_WITHIN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogOptions:
    """``pending`` jobs wait and ``finished`` ones lie in the history; the first ``jobs`` of them are timed."""

    pending: int = 1_000_000
    finished: int = 0
    jobs: int = 20_000
    rounds: int = 5
    slots: int = 32

    def __post_init__(self) -> None:
        """UsageError if the jobs that wait would not do for all rounds."""
        least = 2 * self.jobs * self.rounds
        if self.pending < least:
            raise UsageError(
                f"--pending must be at least twice --jobs times --rounds, here {least:,}: every round takes jobs of its own"
            )


def run(ground: Ground, options: BacklogOptions) -> dict[str, Any]:
    """Measure ``jobs`` out of ``pending`` against ``jobs`` alone; the figures as JSON has them.

    Not in turn: filling millions of rows for each round would take longer than what is measured.
    """
    small = Side("small", lambda: _small(ground, options))
    big = Side("big", lambda: _read(ground, options, 0))
    measure([small], options.rounds)
    ground.clear()
    _history(ground, options.finished)
    last = _pending(ground, options.pending)
    done = last - options.pending
    for number in range(options.rounds):
        big.readings.append(_read(ground, options, min(done + options.jobs, last)))
        done = ground.furthest()
        print(f"round {number + 1} of {options.rounds}: big {big.rates[-1]:,.0f}/s", file=sys.stderr, flush=True)
    return {
        "bench": "backlog",
        "jobs_per_s": big.rate.rounded()["median"],
        "small_jobs_per_s": small.rate.rounded()["median"],
        "ratio_to_small": round(big.rate.median / small.rate.median, 3),
        "pending": options.pending,
        "finished": options.finished,
        "jobs": options.jobs,
        "rounds": options.rounds,
        "slots": options.slots,
        "sides": {side.name: side.as_json() for side in (small, big)},
        **ground.facts(),
    }


def _small(ground: Ground, options: BacklogOptions) -> Reading:
    ground.clear()
    return _read(ground, options, _pending(ground, options.jobs))


def _read(ground: Ground, options: BacklogOptions, until_id: int) -> Reading:
    """Open the queue, wait for this job's end, and take the times of those up to it that were claimed since then.

    The next round begins where this one's worker has really stopped: it takes more, until the queue is shut.
    """
    with worker(ground, [f"--slots={options.slots}"]) as pid:
        meter = Meter(ground.postmaster, pid)
        since = ground.now()
        ground.open()
        ground.await_end_of(until_id, _WITHIN_S)
        cpu = meter.spent_s()
        ground.shut()
    query = words.SQL(
        "SELECT count(*), extract(epoch FROM max(finished_at) - min(claimed_at))::float8"
        " FROM {} WHERE claimed_at >= %s AND id <= %s"
    ).format(words.Identifier(SCHEMA, "outcome"))
    with ground.connect() as conn:
        jobs, seconds = conn.execute(query, [since, until_id]).fetchall()[0]
    if not jobs:
        raise FencepostError("the queue ran empty before the last round: give more --pending or fewer --jobs")
    return Reading(jobs, seconds, cpu)


def _pending(ground: Ground, jobs: int) -> int:
    return ground.fill(jobs, task="bench.async")


def _history(ground: Ground, jobs: int) -> None:
    """Jobs that have succeeded, as a worker leaves them, written directly: a drain of millions would take minutes."""
    statement = words.SQL(_HISTORY).format(
        job=words.Identifier(SCHEMA, "job"), outcome=words.Identifier(SCHEMA, "outcome")
    )
    with ground.connect() as conn:
        for done in range(0, jobs, 100_000):
            conn.execute(statement, [min(100_000, jobs - done)])
        conn.execute(words.SQL("VACUUM ANALYZE {}").format(words.Identifier(SCHEMA, "outcome")))


_HISTORY = """
WITH made AS (
  INSERT INTO {job} (job_id, task, version, queue, payload, priority, run_at)
  SELECT gen_random_uuid()::text, 'bench.async', 1, 'bench', '{{}}', 0, now() FROM generate_series(1, %s) RETURNING id
)
INSERT INTO {outcome} (id, token, claimed_at, finished_at, purge_at, run_count, attempts, crashes, snoozes, state)
SELECT id, 1, now(), now(), now() + interval '14 days', 1, 1, 0, 0, 'succeeded' FROM made"""
