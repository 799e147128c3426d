"""Incident 1: nothing goes wrong.

A job waits, runs, and is over. A naive queue marks it done and forgets the rest: how often it ran, when it ended, what
came of it. Fencepost must show each of the three states while it lasts, count one attempt, and keep the time of the end
and the result; and the provider must have been asked once.
"""

from __future__ import annotations

import pytest

from incidents.shop import Shop


@pytest.mark.spec("D1", "L1", "L3")
def test_a_job_waits_runs_and_succeeds_once(shop: Shop) -> None:
    shop.put("send", key="order 1", name="order 1", gate="1")
    waiting = shop.job("order 1")
    shop.start()
    shop.wait("begin", "order 1")
    running = shop.job("order 1")

    shop.open("1")

    shop.wait_state("succeeded", "order 1")
    ended = shop.job("order 1")
    assert [job["state"] for job in (waiting, running, ended)] == ["queued", "running", "succeeded"]
    assert [job["attempts"] for job in (waiting, running, ended)] == [0, 1, 1]
    assert [job["finished_at"] is None for job in (waiting, running, ended)] == [True, True, False]
    assert running["created_at"] < running["claimed_at"] < ended["finished_at"]
    assert [ended["result"]] == shop.provider.objects("order 1")
    assert [(run["run_count"], run["how"]) for run in shop.runs_of("order 1")] == [(1, "succeeded")]
    assert len(shop.provider.requests()) == 1
    shop.assert_sound()
