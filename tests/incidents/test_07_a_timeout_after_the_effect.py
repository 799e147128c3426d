"""Incident 7: the provider has done it, and its answer never arrives.

To the caller it is a timeout like any other. A naive queue retries with a new request, and there are two objects.
Fencepost must call it what it is (``NETWORK_TIMEOUT``, worth a retry), and the retry must carry the same Idempotency-Key,
also when it runs in another process: the provider knows the key, and there is one object.
"""

from __future__ import annotations

import pytest

from incidents.provider import SILENT, UNAVAILABLE
from incidents.shop import Shop


@pytest.mark.spec("D1", "E2", "R1")
def test_a_retry_after_a_lost_answer_finds_the_object_of_the_first_try(shop: Shop) -> None:
    """Two answers are lost and one 503 lies between: still one key and one object."""
    shop.provider.behave(SILENT, UNAVAILABLE, SILENT)
    shop.put("send.impatiently", key="order 7", name="order 7")

    shop.start(processes="2")

    shop.wait_state("succeeded", "order 7")
    assert shop.provider.effects("order 7") == ["made", "none", "known", "known"]
    assert len({request["key"] for request in shop.provider.requests("order 7")}) == 1
    assert [shop.job("order 7")["result"]] == shop.provider.objects("order 7")
    codes = [run["error_code"] for run in shop.runs_of("order 7")]
    assert codes == ["NETWORK_TIMEOUT", "PROVIDER_5XX", "NETWORK_TIMEOUT", None]
    shop.assert_sound()


@pytest.mark.spec("E2")
def test_two_jobs_about_one_thing_make_one_object(shop: Shop) -> None:
    """The key names the business fact: a second job about it, of another task, is no second object either."""
    shop.put("send", key="from the web", name="order 7")
    shop.put("send.thrice", key="from the import", name="order 7")
    shop.put("send", key="of something else", name="order 8")

    shop.start(slots="3")

    shop.wait_state("succeeded", "from the web", "from the import", "of something else")
    assert sorted(shop.provider.effects("order 7")) == ["known", "made"]
    assert shop.provider.effects("order 8") == ["made"]
