"""Incident 12: PostgreSQL is restarted in the middle of a backlog: in order, at once, and by SIGKILL.

A naive worker dies of its lost connection, or hangs on it until somebody restarts it; what it ran stays ``running``.
Fencepost must lose nothing that was committed; its workers must come back by themselves, all of them, and go on; and the
job of a worker that died while the database was away, so that nobody could write it down, must be found and run again.
"""

from __future__ import annotations

import pytest

from incidents.shop import Shop
from waiting import eventually

JOBS = 1_000


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.spec("D1", "W4", "W6", "C6", "C11")
def test_a_backlog_survives_three_restarts_of_postgresql(own_shop: Shop) -> None:
    shop, server = own_shop, own_shop.database.server
    lost = shop.start("shop_app:app", "--no-leader", heartbeat_ttl="60s")
    shop.put("wait", key="held", gate="never")
    shop.wait("begin", "held")
    shop.put("brief", key="backlog", count=JOBS)
    workers = [shop.start(slots="2", heartbeat_ttl="60s") for _ in range(2)]
    children = [worker.wait_children() for worker in workers]
    at_least = JOBS // 10

    for how in ("fast", "immediate", "kill -9"):
        shop.wait("end", count=at_least)
        if how == "kill -9":
            server.kill()
            lost.lose_machine()
        else:
            server.stop(how)
        assert len(shop.all("end")) < JOBS, f"{how}: nothing was left to do"
        server.start()
        at_least = len(shop.all("end")) + JOBS // 10

    shop.wait_counts(succeeded=JOBS + 1)
    assert [worker.children() for worker in workers] == children
    done = {event["job"] for event in shop.all("end")}
    assert done == {"held", *(f"backlog:{n}" for n in range(JOBS))}
    assert [(run["how"], run["spent"]) for run in shop.runs_of("held")] == [("stale", True), ("succeeded", True)]
    assert shop.rows("SELECT max(crashes) FROM fencepost.jobs WHERE job_id <> 'held'") == [(0,)]
    eventually(lambda: shop.ask("status")["status"]["stale"] == 0)
    shop.assert_sound()
