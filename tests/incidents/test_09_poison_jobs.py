"""Incident 9: jobs that can never succeed.

Arguments that the task does not take, a payload that nobody can decode, an order that does not exist, a body that takes
its process down. A naive queue lets them go round for ever, or a worker falls over them at its start, again and again,
with all that stands behind them. Fencepost must end each ``failed`` with a code, after one run or, where the process died,
after as many crashes as the task allows; and their neighbours must know nothing of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from incidents.shop import Shop
from waiting import always

ENDS: dict[str, tuple[str, int]] = {
    "no such argument": ("PAYLOAD_INVALID", 1),
    "a wrong type": ("PAYLOAD_INVALID", 1),
    "not to be decoded": ("PAYLOAD_INVALID", 1),
    "no such order": ("INVALID_ORDER", 1),
    "a killer": ("CRASH_LOOP", 2),
}
"""Each with its code and how often it may run."""


def put_poison(shop: Shop) -> None:
    shop.put("count", key="no such argument", amount=1)
    shop.put("count", key="a wrong type", number="one")
    shop.put("count", key="not to be decoded", number=1)
    shop.rows(
        "UPDATE fencepost.job SET payload = '{\"number\": 1e5000}' WHERE job_id = 'not to be decoded' RETURNING id"
    )
    shop.put("refuse", key="no such order")
    shop.put("kill", key="a killer")


@pytest.mark.spec("D1", "C12", "Q7", "R4", "R6")
def test_poison_is_failed_and_its_neighbours_are_done(shop: Shop) -> None:
    good = shop.put("count", key="before", count=20, number=1)
    put_poison(shop)
    good += shop.put("count", key="after", count=20, number=2)

    worker = shop.start(slots="4")

    shop.wait_state("failed", *ENDS)
    shop.wait_state("succeeded", *good)
    found: dict[str, dict[str, Any]] = {name: shop.job(name) for name in ENDS}
    assert {name: (job["last_error_code"], job["attempts"]) for name, job in found.items()} == ENDS
    assert {name for name, job in found.items() if job["crashes"]} == {"a killer"}
    assert len(shop.all("begin", "a killer")) == 2
    before = shop.rows("SELECT job_id, run_count FROM fencepost.jobs ORDER BY 1")
    always(lambda: shop.rows("SELECT job_id, run_count FROM fencepost.jobs ORDER BY 1") == before, during=1.5)
    assert worker.process.poll() is None
    shop.assert_sound()
