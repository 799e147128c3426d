"""Incident 10: a hundred thousand jobs wait.

A naive queue scans all of them for the next one, sorts them for the list on the dashboard, and gets slower with every row
that it has finished, until it never catches up. Fencepost must claim from a hundred thousand as from two thousand, spend
as much of the database on the last job as on the first, keep its pace to the end, serve the oldest first and say how old
that is; and the commands that a person types at such a moment must answer.

Nothing here is measured in seconds alone: each figure is held against the same one with a small queue, or at the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest

from incidents.shop import Shop
from sql.plans import Act, blocks
from waiting import eventually

FEW, MANY = 2_000, 100_000
CLAIM = Act(
    "jobs/claim",
    {"token": 1, "queues": ["default"], "quotas": [50], "max_bytes": 1 << 24, "ttl_s": 30.0, "after": None},
    50,
)
LISTS = (("jobs", "list"), ("jobs", "list", "--state", "queued", "--limit", "100"))
COUNTS = (("queues", "list"), ("status",))
"""They count up to 20,000 and say so: ten times `FEW`."""


class Figures(NamedTuple):
    """What a person would look at: blocks that a claim reads, its time, and the times of the commands."""

    claim_blocks: int
    claim_s: float
    commands_s: dict[str, float]


class Load(NamedTuple):
    """Where the draining was at a moment: jobs done, blocks that the database has touched so far, its time."""

    done: int
    touched: int
    at: float


def fill(shop: Shop, first: int, last: int) -> None:
    """Jobs number ``first`` to ``last``, without a word to anybody."""
    shop.rows(
        "SELECT count(*) FROM (SELECT array_agg('job:' || n) AS ids, array_agg('nothing'::text) AS tasks,"
        " array_agg(json_build_object('number', n)::text) AS payloads, array_agg('default'::text) AS queues"
        " FROM generate_series(%s::int, %s::int) n) all_of_them, LATERAL fencepost.enqueue_v1(ids, tasks, payloads, queues)",
        first,
        last,
    )


def best_of(times: int, act: Callable[[], Any]) -> float:
    """The quickest of several: what the machine does beside it only makes it slower."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return min(took)


def look(shop: Shop) -> Figures:
    with shop.database.connect() as conn:
        claim_blocks = blocks(conn, CLAIM)
        claim_s = best_of(9, lambda: claimed(conn))
    return Figures(
        claim_blocks, claim_s, {" ".join(words): best_of(4, partial(shop.ask, *words)) for words in LISTS + COUNTS}
    )


def slower(small: Figures, large: Figures, commands: Iterable[tuple[str, ...]], times: float) -> dict[str, Any]:
    """Those of the commands that take more than so many times as long."""
    named = [" ".join(words) for words in commands]
    pairs = {name: (small.commands_s[name], large.commands_s[name]) for name in named}
    return {name: pair for name, pair in pairs.items() if pair[1] > times * pair[0] + 0.1}


def claimed(conn: psycopg.Connection[Any]) -> None:
    """Fifty jobs claimed and left again."""
    with conn.transaction(force_rollback=True):
        got = conn.execute("SELECT id FROM fencepost.claim_v1(1, '{default}', '{50}')").fetchall()
        assert len(got) == 50


def load(shop: Shop, at_least: int) -> Load:
    """Once so many are done, by their ids, since to count them would be a load of its own.

    What sessions have touched they tell within a second.
    """

    def far() -> int:
        shop.check()
        done = int(shop.value("SELECT coalesce(max(id), 0) FROM fencepost.outcome"))
        return done if done >= at_least else 0

    done = eventually(far, within=600, every=0.25)
    touched, at = shop.rows(
        "SELECT blks_hit + blks_read, extract(epoch FROM clock_timestamp())::float8 FROM pg_stat_database"
        " WHERE datname = current_database()"
    )[0]
    return Load(done, touched, at)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.spec("D1", "C2", "O1")
def test_a_hundred_thousand_jobs_are_claimed_listed_and_worked_off_as_a_few_are(shop: Shop) -> None:
    fill(shop, 1, FEW)
    small = look(shop)
    fill(shop, FEW + 1, MANY)
    large = look(shop)
    status = shop.ask("status")["status"]
    truly = float(shop.value("SELECT extract(epoch FROM clock_timestamp() - min(run_at)) FROM fencepost.ready"))

    shop.start("shop_app:app", "--log-level=WARNING", slots="16", heartbeat_ttl="60s", processes="2")
    loads = [load(shop, MANY * percent // 100) for percent in (5, 45, 55, 95, 100)]
    shop.wait_counts(succeeded=MANY)

    assert large.claim_blocks <= 2 * small.claim_blocks
    assert large.claim_s <= 5 * small.claim_s + 0.005
    assert slower(small, large, LISTS, times=5) == {}
    assert slower(small, large, COUNTS, times=20) == {}
    assert truly - 5 <= status["oldest_due_age_s"] <= truly
    assert status["capped"]
    early, late = ((b.touched - a.touched) / (b.done - a.done) for a, b in (loads[:2], loads[2:4]))
    assert late <= 2 * early, (early, late)
    early, late = ((b.done - a.done) / (b.at - a.at) for a, b in (loads[:2], loads[2:4]))
    assert late >= early / 5, (early, late)
    assert shop.value("SELECT max(claimed_at) FROM fencepost.outcome WHERE id <= %s", FEW) < shop.value(
        "SELECT min(claimed_at) FROM fencepost.outcome WHERE id > %s", MANY - FEW
    )
    assert shop.rows("SELECT DISTINCT attempts, crashes FROM fencepost.outcome") == [(1, 0)]
    assert shop.ask("status")["status"]["oldest_due_age_s"] is None
    shop.assert_sound()
