"""Incident 3: the provider says that it will never take this.

A naive queue retries every error: four more requests that must fail, half an hour later somebody is told. Fencepost must
ask once, end the job ``failed`` at once with the error's own code, and keep it where a person finds it.
"""

from __future__ import annotations

import pytest

from incidents.provider import REFUSING
from incidents.shop import Shop
from waiting import always


@pytest.mark.spec("D1", "R1", "R4")
def test_a_request_that_can_never_succeed_is_made_once(shop: Shop) -> None:
    shop.provider.behave(REFUSING)
    shop.put("send.thrice", key="order 3", name="order 3")

    shop.start()

    shop.wait_state("failed", "order 3")
    job = shop.job("order 3")
    assert (job["attempts"], job["last_error_code"], job["next_retry_at"]) == (1, "INVALID_PAYLOAD", None)
    assert "422" in job["last_error"]
    always(lambda: len(shop.provider.requests()) == 1, during=1.5)
    listed = shop.ask("jobs", "list", "--state", "failed")
    assert [(found["job_id"], found["last_error_code"]) for found in listed] == [("order 3", "INVALID_PAYLOAD")]
    shop.assert_sound()
