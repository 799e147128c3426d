"""The whole life of a job that tells a CRM of a project: three runs on three workers, one record.

The CRM answers 503, and the job is put back. The second worker makes the record and its machine is lost before it can say
so. When the lease has ended the third worker sends the same key and is given the record that is there. A naive queue has
two records by then, or a job that is ``running`` for ever.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest

from incidents.provider import UNAVAILABLE
from incidents.shop import CommandWorker, Shop
from waiting import eventually
from worker.scene import SLOW

NAME = "project 1842"


def put_back_by(worker: CommandWorker, shop: Shop) -> dict[str, Any]:
    """The job after the 503, its worker gone in good order."""
    (job,) = eventually(lambda: [job for job in [shop.job(NAME)] if job["label"] == "retrying"], within=SLOW)
    worker.send(signal.SIGTERM)
    assert worker.ends() == 0
    return job


@pytest.mark.spec("D1", "R1", "C6", "E2", "L3")
def test_three_runs_on_three_workers_make_one_record(shop: Shop) -> None:
    shop.provider.behave(UNAVAILABLE)
    shop.put("crm.sync", key=NAME, project=1842)

    waiting = put_back_by(shop.start("crm_app:app"), shop)
    second = shop.start("crm_app:app", "--no-leader")
    shop.wait("made", NAME)
    shop.start("crm_app:app").wait_children()
    second.lose_machine()

    shop.wait_state("succeeded", NAME)
    assert (waiting["state"], waiting["last_error_code"]) == ("queued", "CRM_TEMPORARY_UNAVAILABLE")
    assert shop.provider.effects(NAME) == ["none", "made", "known"]
    assert len({request["key"] for request in shop.provider.requests()}) == 1
    assert [shop.job(NAME)["result"]] == shop.provider.objects(NAME)
    runs = shop.runs_of(NAME)
    assert [(run["how"], run["error_code"]) for run in runs] == [
        ("retry", "CRM_TEMPORARY_UNAVAILABLE"),
        ("stale", "STALE"),
        ("succeeded", None),
    ]
    assert len({run["token"] for run in runs}) == 3
    assert (shop.job(NAME)["attempts"], shop.job(NAME)["crashes"]) == (3, 1)
    shop.assert_sound()
