"""Incident 13: a new release meets thousands of jobs that the old one has enqueued.

A naive queue has "JSON parse error" and 20,000 failed jobs. Fencepost must run jobs of an older version by the new code: a
new argument has a default, one with a new name is kept beside it until the old jobs are gone. The other way round, while
workers of both releases run, a job of a newer version must wait for a worker that knows it: visible, with nothing spent.
And where a release did forget the old jobs, they fail by name, once, with everything kept, and the release that mends it
takes them back.
"""

from __future__ import annotations

import signal

import pytest

from fencepost import App, JobContext
from incidents.shop import Shop
from waiting import eventually
from worker.scene import SLOW

OLD = 2_000


def put_old(shop: Shop, count: int) -> None:
    """Jobs of version 1, as release 1 has put them; its worker has come and gone."""
    worker = shop.start("release_1:app")
    worker.wait_children()
    worker.send(signal.SIGTERM)
    assert worker.ends() == 0
    shop.rows(
        "SELECT count(*) FROM generate_series(1, %s) n, LATERAL fencepost.enqueue('report.send',"
        " jsonb_build_object('order', n, 'mail', n || '@example.com'), 'old:' || n) e",
        count,
    )
    assert shop.rows("SELECT DISTINCT version FROM fencepost.job") == [(1,)]


def put_newer(shop: Shop, count: int) -> list[str]:
    """Jobs of version 2, by a web server that was deployed before the workers."""
    app = App(shop.database.dsn, name="web")

    @app.task("report.send", version=2)
    async def send(job: JobContext, order: int, to: list[str]) -> None: ...

    names = [f"new:{n}" for n in range(count)]
    app.enqueue_many([send.using(job_id=name).new(order=n, to=["a", "b"]) for n, name in enumerate(names)])
    app.close()
    return names


@pytest.mark.spec("D1", "Q8")
def test_the_new_release_runs_what_the_old_one_has_enqueued(shop: Shop) -> None:
    put_old(shop, OLD)

    shop.start("release_2:app", slots="8")

    shop.wait_counts(succeeded=OLD)
    sent = {event["order"]: (event["release"], event["to"], event["language"]) for event in shop.all("sent")}
    assert sent == {n: (2, [f"{n}@example.com"], "en") for n in range(1, OLD + 1)}
    assert shop.rows("SELECT DISTINCT run_count, attempts FROM fencepost.outcome") == [(1, 1)]
    shop.assert_sound()


@pytest.mark.spec("D1", "Q8", "L1")
def test_newer_jobs_wait_visibly_for_a_worker_that_knows_them(shop: Shop) -> None:
    old = shop.start("release_1:app", slots="4")
    old.wait_children()
    newer = put_newer(shop, 20)
    eventually(lambda: {shop.job(name)["parked_for"] for name in newer} == {"unknown"}, within=SLOW)
    seen = [count for count in shop.ask("status")["status"]["counts"] if count["label"] == "parked"]
    waiting = shop.rows("SELECT DISTINCT state, attempts FROM fencepost.jobs")
    shop.put("report.send", key="of version 1", order=0, mail="c")
    shop.wait_state("succeeded", "of version 1")
    sent_by_old = shop.all("sent")

    shop.start("release_2:app")

    shop.wait_state("succeeded", *newer)
    assert [(count["queue"], count["state"], count["jobs"]) for count in seen] == [("default", "queued", 20)]
    assert waiting == [("queued", 0)]
    assert [(event["job"], event["release"]) for event in sent_by_old] == [("of version 1", 1)]
    assert {(event["release"], *event["to"]) for event in shop.all("sent") if event["job"] in newer} == {(2, "a", "b")}
    assert {shop.job(name)["attempts"] for name in newer} == {1}
    assert old.process.poll() is None
    shop.assert_sound()


@pytest.mark.spec("Q7", "R5")
def test_what_a_hasty_release_has_failed_is_taken_back_by_the_next_one(shop: Shop) -> None:
    put_old(shop, 50)
    hasty = shop.start("release_2_in_haste:app")
    shop.wait_counts(failed=50)
    broken = shop.rows("SELECT DISTINCT last_error_code, attempts, payload->>'mail' IS NULL FROM fencepost.jobs")
    hasty.send(signal.SIGTERM)
    assert hasty.ends() == 0

    shop.start("release_2:app", slots="8")
    answers = shop.ask(
        "jobs", "retry", "--state", "failed", "--task", "report.send", "--limit", "100", "--reason", "mended", "--yes"
    )

    assert broken == [("PAYLOAD_INVALID", 1, False)]
    assert {answer["answer"] for answer in answers} == {"resubmitted"}
    shop.wait_counts(succeeded=50)
    assert {event["order"]: event["to"] for event in shop.all("sent")} == {
        n: [f"{n}@example.com"] for n in range(1, 51)
    }
    shop.assert_sound()
