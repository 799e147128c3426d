"""Incident 8: a new release goes out while jobs run.

The old worker gets SIGTERM. A naive worker dies in the middle of its job, or goes on taking jobs until it is killed.
Fencepost must take nothing new, though it has free slots, let what runs finish and end with 0; the new worker, which comes
up meanwhile, takes the rest; and no job runs a second time over it.
"""

from __future__ import annotations

import signal

import pytest

from incidents.shop import Shop
from waiting import always


@pytest.mark.spec("D1", "W3")
def test_the_old_worker_ends_its_jobs_and_the_new_one_takes_the_rest(shop: Shop) -> None:
    old = shop.start(slots="4")
    current = shop.put("send", key="current", count=2, name="current", gate="current")
    shop.wait("begin", count=2)
    (old_process,) = old.children()

    old.send(signal.SIGTERM)
    shop.wait("stopping", count=2)
    rest = shop.put("count", key="rest", count=40, number=1)
    always(lambda: not shop.all("count") and old.process.poll() is None, during=1.5)
    new = shop.start(slots="4")
    shop.wait_state("succeeded", *rest)
    meanwhile = [shop.state(name) for name in current]
    shop.open("current")

    assert meanwhile == ["running", "running"]
    assert old.ends() == 0
    assert {shop.state(name) for name in current} == {"succeeded"}
    assert {event["pid"] for event in shop.all("end")} == {old_process}
    assert {event["pid"] for event in shop.all("count")} == {*new.children()}
    assert len(shop.all("count")) == len(rest)
    assert shop.rows("SELECT DISTINCT run_count, attempts, crashes FROM fencepost.outcome") == [(1, 1, 0)]
    shop.assert_sound()
