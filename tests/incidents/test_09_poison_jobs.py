"""Incident 9: jobs that can never succeed.

Arguments that the task does not take, a payload that nobody can decode, an order that does not exist, a body that takes
its process down. A naive queue lets them go round for ever, or a worker falls over them at its start, again and again,
with all that stands behind them. Fencepost must end each ``failed`` with a code, after one run or, where the process died,
after as many crashes as the task allows; and their neighbours must know nothing of it.
"""

from __future__ import annotations

import pytest

from incidents.shop import Shop
from waiting import always

UNFIT = {
    "no such argument": "PAYLOAD_INVALID",
    "a wrong type": "PAYLOAD_INVALID",
    "not to be decoded": "PAYLOAD_INVALID",
    "no such order": "INVALID_ORDER",
}


def put_unfit(shop: Shop) -> None:
    shop.put("count", key="no such argument", amount=1)
    shop.put("count", key="a wrong type", number="one")
    shop.put("count", key="not to be decoded", number=1)
    shop.rows(
        "UPDATE fencepost.job SET payload = '{\"number\": 1e5000}' WHERE job_id = 'not to be decoded' RETURNING id"
    )
    shop.put("refuse", key="no such order")


def assert_at_rest(shop: Shop) -> None:
    """Nothing goes round."""
    every = "SELECT job_id, run_count FROM fencepost.jobs ORDER BY job_id"
    before = shop.rows(every)
    always(lambda: shop.rows(every) == before, during=1.5)
    shop.assert_sound()


@pytest.mark.spec("D1", "C12", "Q7", "R4")
def test_jobs_that_can_never_succeed_are_failed_after_one_run_and_their_neighbours_are_done(shop: Shop) -> None:
    good = shop.put("count", key="before", count=20, number=1)
    put_unfit(shop)
    good += shop.put("count", key="after", count=20, number=2)

    worker = shop.start(slots="4")

    shop.wait_state("failed", *UNFIT)
    shop.wait_state("succeeded", *good)
    assert {name: shop.job(name)["last_error_code"] for name in UNFIT} == UNFIT
    assert_at_rest(shop)
    assert shop.rows("SELECT DISTINCT run_count, attempts, crashes FROM fencepost.outcome") == [(1, 1, 0)]
    assert len(worker.children()) == 1


@pytest.mark.spec("D1", "R6", "W11")
def test_a_job_that_kills_its_process_each_time_is_stopped_and_the_queue_goes_on(shop: Shop) -> None:
    """Two crashes are its bound; it has fifty attempts, which is no bound at all."""
    worker = shop.start(slots="4")
    (first,) = worker.wait_children()
    shop.put("kill", key="a killer")

    good = shop.put("count", key="beside it", count=40, number=1)

    shop.wait_state("failed", "a killer")
    shop.wait_state("succeeded", *good)
    job = shop.job("a killer")
    assert (job["last_error_code"], job["crashes"], job["attempts"]) == ("CRASH_LOOP", 2, 2)
    assert [run["how"] for run in shop.runs_of("a killer")] == ["stale", "stale"]
    assert_at_rest(shop)
    assert len(shop.all("begin", "a killer")) == 2
    assert first not in worker.wait_children()
