"""Incident 8: a new release goes out while jobs run.

The old worker gets SIGTERM. A naive worker dies in the middle of its job, or goes on taking jobs until it is killed.
Fencepost must take nothing new, let what runs finish, give back what it had claimed ahead, and end with 0; the new
worker, which is up already, takes the rest; and no attempt is lost over it.
"""

from __future__ import annotations

import signal

import pytest

from incidents.shop import Shop
from waiting import always, eventually


@pytest.mark.spec("D1", "W3")
def test_the_old_worker_ends_its_jobs_and_the_new_one_takes_the_rest(shop: Shop) -> None:
    old = shop.start(slots="2")
    current = shop.put("send", key="current", count=2, name="current", gate="current")
    shop.wait("begin", count=2)
    (old_process,) = old.children()
    rest = shop.put("count", key="rest", count=30, number=1)

    old.send(signal.SIGTERM)
    eventually(lambda: "stops" in old.logged() or "drain" in old.logged())
    late = shop.put("count", key="late", count=30, number=2)
    always(lambda: not shop.all("count") and old.process.poll() is None, during=1.0)
    new = shop.start(slots="2")
    shop.wait_state("succeeded", *rest, *late)
    running = [shop.state(name) for name in current]
    shop.open("current")

    assert running == ["running", "running"]
    assert old.ends() == 0
    assert {shop.state(name) for name in current} == {"succeeded"}
    assert {event["pid"] for event in shop.all("count")} == {*new.children()}
    assert {event["pid"] for event in shop.all("end")} == {old_process}
    assert shop.rows("SELECT DISTINCT attempts, crashes FROM fencepost.outcome") == [(1, 0)]
    assert len(shop.all("count")) == 60
    shop.assert_sound()
