"""Incident 5: the machine of a worker is gone in the middle of a job.

Nobody is left who could say so: supervisor and worker process end by SIGKILL at the same moment. A naive queue leaves the
job ``running`` for ever; one that is less naive hands it out again by a clock of its own, beside a worker that is only
slow. Fencepost must leave the job alone while its lease holds, show it as lost when it does not, and have another worker
run it again with the attempt and the crash counted.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from incidents.shop import Shop


@pytest.mark.spec("D1", "C5", "C6", "L5")
def test_another_worker_takes_the_job_when_its_lease_has_ended(shop: Shop) -> None:
    first = shop.start("shop_app:app", "--no-leader")
    shop.put("wait", key="order 5", gate="never")
    shop.wait("begin", "order 5")
    second = shop.start()
    second.wait_children()
    taken_from = first.tokens()

    first.lose_machine()

    begun, again = shop.wait("begin", "order 5", count=2)
    shop.wait_state("succeeded", "order 5")
    job = shop.job("order 5")
    lost, won = shop.runs_of("order 5")
    assert begun["pid"] != again["pid"] in second.children()
    assert (lost["how"], lost["error_code"], won["how"]) == ("stale", "STALE", "succeeded")
    assert (job["attempts"], job["crashes"], job["run_count"]) == (2, 1, 2)
    assert {lost["token"]} == taken_from
    assert won["token"] not in taken_from
    last_sign, taken = (datetime.fromisoformat(text) for text in (lost["last_beat_at"], won["claimed_at"]))
    assert taken - last_sign >= timedelta(seconds=4)  # the task's ttl
    shop.assert_sound()
