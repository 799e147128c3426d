"""Incident 11: two workers reach for one job at the same moment.

A naive queue reads "pending" and then writes "running": between the two another worker has read the same. Fencepost must
give each job to one of them, every time. Here two idle workers are woken at once by each single job, hundreds of times;
both must have won, or there was no race.
"""

from __future__ import annotations

from collections import Counter

import pytest

from incidents.shop import Shop
from waiting import eventually

ROUNDS = 150


@pytest.mark.spec("D1", "C1", "C3")
def test_one_job_and_two_workers_is_one_run(shop: Shop) -> None:
    workers = [shop.start(slots="2", poll_interval="10ms") for _ in range(2)]
    children = {pid for worker in workers for pid in worker.wait_children()}

    for number in range(ROUNDS):
        shop.put("count", key=f"job {number}", number=number)
        eventually(lambda at=number: shop.all("count", f"job {at}"), within=40, every=0.002)  # type: ignore[misc]
    shop.wait_counts(succeeded=ROUNDS)

    assert Counter(event["job"] for event in shop.all("count")) == {f"job {n}": 1 for n in range(ROUNDS)}
    assert shop.rows("SELECT DISTINCT run_count, attempts FROM fencepost.outcome") == [(1, 1)]
    wins = Counter(event["pid"] for event in shop.all("count"))
    assert set(wins) == children
    shop.assert_sound()
