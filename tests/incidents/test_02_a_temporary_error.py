"""Incident 2: the provider answers 503.

A naive queue either marks the job failed, or runs it again at once and adds its own load to a provider in trouble, with
a worker asleep in between. Fencepost must put the job back with a time at which it is due again, an attempt spent and the
error's code on it; give the slot to others meanwhile; heed Retry-After where the provider names a time, else its own
backoff; and the next run must succeed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from incidents.provider import UNAVAILABLE, busy_for
from incidents.shop import Shop
from waiting import eventually
from worker.scene import SLOW


def put_back(shop: Shop, job_id: str) -> tuple[dict[str, Any], float]:
    """The job once it waits for its second run, and for how long it was told to wait."""
    (job,) = eventually(lambda: [job for job in [shop.job(job_id)] if job["label"] == "retrying"], within=SLOW)
    (first,) = shop.runs_of(job_id)
    return job, (job["next_retry_at"] - datetime.fromisoformat(first["ended_at"])).total_seconds()


@pytest.mark.spec("D1", "R1", "R3")
def test_a_503_puts_the_job_back_until_the_time_that_the_provider_named(shop: Shop) -> None:
    """The task's own backoff would have been half a minute; the one slot works on meanwhile."""
    shop.provider.behave(busy_for(4))
    shop.put("send", key="order 2", name="order 2")
    shop.start()

    job, pause = put_back(shop, "order 2")
    shop.put("send", key="another", name="another")
    shop.wait_state("succeeded", "another")
    between = shop.provider.requests("order 2")
    shop.wait_state("succeeded", "order 2")

    assert (job["state"], job["attempts"], job["last_error_code"]) == ("queued", 1, "PROVIDER_5XX")
    assert 4 <= pause <= 4.8  # never earlier, and not all who were told the same at once
    assert [request["status"] for request in between] == [503]
    assert [request["status"] for request in shop.provider.requests("order 2")] == [503, 201]
    assert [(run["how"], run["spent"], run["error_code"]) for run in shop.runs_of("order 2")] == [
        ("retry", True, "PROVIDER_5XX"),
        ("succeeded", True, None),
    ]
    first, second = shop.all("begin", "order 2")
    assert second["at"] - first["at"] >= 4
    assert shop.job("order 2")["attempts"] == 2
    shop.assert_sound()


@pytest.mark.spec("D1", "R2")
def test_a_503_without_a_time_waits_for_the_tasks_backoff(shop: Shop) -> None:
    """30 s and at most a fifth more or less; never at once."""
    shop.provider.behave(UNAVAILABLE)
    shop.put("send", key="order 2", name="order 2")
    shop.start()

    job, pause = put_back(shop, "order 2")

    assert (job["state"], job["attempts"], job["last_error_code"]) == ("queued", 1, "PROVIDER_5XX")
    assert 24 <= pause <= 36
    assert len(shop.provider.requests()) == 1
    shop.assert_sound()
