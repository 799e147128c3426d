"""Incident 4: the provider stays away for longer than we try.

A naive queue tries for ever, or drops the job after the last try with a line in a log. Fencepost must try as often as the
task says, later each time, end ``failed`` with every run on record, and let a person send the same job again, under the
same key, when the provider is back.
"""

from __future__ import annotations

import pytest

from incidents.provider import UNAVAILABLE
from incidents.shop import Shop
from waiting import always


@pytest.mark.spec("D1", "R2", "R4", "R5", "L3")
def test_after_the_last_attempt_the_job_is_failed_and_kept(shop: Shop) -> None:
    shop.provider.behave(UNAVAILABLE, UNAVAILABLE, UNAVAILABLE)
    shop.put("send.thrice", key="order 4", name="order 4")

    shop.start()

    shop.wait_state("failed", "order 4")
    job = shop.job("order 4")
    assert (job["attempts"], job["last_error_code"], job["next_retry_at"]) == (3, "PROVIDER_5XX", None)
    assert [(run["how"], run["error_code"]) for run in shop.runs_of("order 4")] == [
        ("retry", "PROVIDER_5XX"),
        ("retry", "PROVIDER_5XX"),
        ("failed", "PROVIDER_5XX"),
    ]
    first, second, third = (event["at"] for event in shop.all("begin", "order 4"))
    assert second - first >= 0.3
    assert third - second >= 0.9
    always(lambda: len(shop.provider.requests()) == 3, during=1.5)

    (answer,) = shop.ask("jobs", "retry", "order 4", "--reason", "the provider is back")

    assert answer["answer"] == "resubmitted"
    shop.wait_state("succeeded", "order 4")
    assert [shop.job("order 4")["result"]] == shop.provider.objects("order 4")
    assert len({request["key"] for request in shop.provider.requests()}) == 1
    assert shop.job("order 4")["manual"] == 1
    shop.assert_sound()
