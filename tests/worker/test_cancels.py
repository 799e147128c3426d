"""A cancel of a job that runs, in each executor (SPEC W8)."""

from __future__ import annotations

import pytest

from fencepost.client.pool import Pool
from fencepost.client.sync import Client
from worker.scene import Scene

APP = "worker.apps.limits_app:app"


def cancel(scene: Scene, job_id: str) -> str:
    pool = Pool(lambda: scene.database.dsn, scene.database.catalog, name="operator")
    client = Client(scene.database.catalog, pool)
    try:
        return client.cancel(job_id, actor="ann", reason="a test")
    finally:
        client.close()


@pytest.mark.spec("W8")
@pytest.mark.parametrize("task", ["async_patient", "thread_patient", "process_patient"])
def test_a_running_body_hears_of_the_cancel_and_cleans_up(scene: Scene, task: str) -> None:
    """Ended ``cancelled`` after its clean-up, with a record of who asked; no further run."""
    scene.worker(app=APP)
    scene.put(task)
    scene.wait("begin", task)

    answer = cancel(scene, task)

    assert answer == "requested"
    scene.wait_state("cancelled", task)
    assert [event["what"] for event in scene.events()] == ["begin", "clean", "broken"]
    assert scene.job(task)["last_error_code"] is None
    assert scene.rows("SELECT actor, action, reason, became FROM fencepost.audit") == [
        ("ann", "cancel", "a test", "requested")
    ]


@pytest.mark.spec("W8")
def test_a_process_body_that_does_not_listen_is_ended_a_second_later(scene: Scene) -> None:
    scene.worker(app=APP)
    scene.put("process_deaf")
    scene.wait("begin", "process_deaf")

    cancel(scene, "process_deaf")

    scene.wait_state("cancelled", "process_deaf")
    assert scene.all("end") == scene.all("broken") == []
    assert scene.job("process_deaf")["crashes"] == 0


@pytest.mark.spec("W8")
def test_a_body_that_finishes_all_the_same_has_succeeded(scene: Scene) -> None:
    """Its work is done: the result is not thrown away."""
    scene.worker(app=APP)
    scene.put("deaf", seconds=2)
    scene.wait("begin", "deaf")

    cancel(scene, "deaf")

    scene.wait_state("succeeded", "deaf")
    assert scene.all("swallowed")
    assert scene.job("deaf")["result"] == "finished all the same"


@pytest.mark.slow
@pytest.mark.spec("W7", "W8")
def test_a_body_that_swallows_a_cancel_holds_no_slot_for_ever(scene: Scene) -> None:
    """It keeps its lease, so that nobody runs beside it, and its slot goes to others: one was all there is. TMO."""
    worker = scene.worker(app=APP, slots=1)
    (child,) = worker.wait_children()
    scene.put("deaf", seconds=25)
    scene.wait("begin", "deaf")
    scene.put("quick")

    cancel(scene, "deaf")

    scene.wait_state("succeeded", "quick", within=15)
    assert scene.state("deaf") == "running"
    assert scene.all("end", "deaf") == []
    scene.wait_state("succeeded", "deaf")
    assert worker.children() == [child]


@pytest.mark.spec("W8", "W2")
def test_a_cancel_of_what_waits_for_a_slot_does_not_keep_others_waiting(scene: Scene) -> None:
    """Short jobs are claimed ahead. One of them is cancelled before its turn: those behind it run all the same."""
    scene.worker(app=APP, slots=1, heartbeat_interval=0.2)
    scene.wait_state("succeeded", *scene.put("brief", key="short", count=30, seconds=0))
    scene.put("brief", key="long", seconds=3)
    scene.wait("begin", "long")
    behind = scene.put("brief", key="behind", count=4, seconds=0)
    scene.wait_state("running", *behind)

    cancel(scene, behind[0])

    scene.wait_state("cancelled", behind[0], within=15)
    scene.wait_state("succeeded", *behind[1:], within=15)
    assert scene.all("begin", behind[0]) == []
