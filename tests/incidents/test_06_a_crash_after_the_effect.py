"""Incident 6: the provider has done it, and the worker dies before it can say so.

The most valuable of these tests. A naive queue has two answers and both are wrong: lose the job, or charge the customer
twice. No queue can avoid the second run; fencepost must make it harmless: the key of the effect is the same in every run,
so that the provider gives back the first object. The same crash with a key of each run's own makes two: that is what the
first test would see if the key were not stable.
"""

from __future__ import annotations

import os
import signal

import pytest

from incidents.shop import Shop


def die_after_the_effect(shop: Shop) -> None:
    """The provider has made the object, the body holds the answer: SIGKILL."""
    (made,) = shop.wait("made", "order 6")
    assert shop.state("order 6") == "running"
    os.kill(made["pid"], signal.SIGKILL)
    shop.wait_state("succeeded", "order 6")


@pytest.mark.spec("D1", "E2", "W11")
def test_a_worker_that_dies_after_the_effect_causes_no_second_one(shop: Shop) -> None:
    shop.put("send.and.linger", key="order 6", name="order 6")
    shop.start()

    die_after_the_effect(shop)

    assert shop.provider.effects("order 6") == ["made", "known"]
    first, second = shop.provider.requests("order 6")
    assert first["key"] == second["key"]
    assert [shop.job("order 6")["result"]] == shop.provider.objects("order 6")
    assert [(run["how"], run["spent"]) for run in shop.runs_of("order 6")] == [("stale", True), ("succeeded", True)]
    shop.assert_sound()


def test_the_same_crash_without_a_stable_key_is_seen_as_two_effects(shop: Shop) -> None:
    """The witness can see what the test above says does not happen."""
    shop.put("send.and.linger", key="order 6", name="order 6", careless=True)
    shop.start()

    die_after_the_effect(shop)

    assert shop.provider.effects("order 6") == ["made", "made"]
