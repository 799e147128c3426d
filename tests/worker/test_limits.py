"""Time limits of one attempt, in each executor (SPEC W7), and what must not be mistaken for one."""

from __future__ import annotations

import pytest

from waiting import always, pause
from worker.scene import Scene

APP = "worker.apps.limits_app:app"


@pytest.mark.spec("W7")
def test_an_async_body_past_its_timeout_is_cancelled_and_tried_again(scene: Scene) -> None:
    scene.worker(app=APP)
    scene.put("async_slow")

    scene.wait_state("succeeded", "async_slow")

    (begin, _), (broken,) = scene.all("begin"), scene.all("broken")
    assert broken["by"] == "CancelledError"
    assert 0.45 < broken["at"] - begin["at"] < 3
    assert scene.runs("async_slow") == [("retry", True, "TIMEOUT")]
    assert scene.value("SELECT error FROM fencepost.attempt").endswith("the task's timeout")
    assert scene.job("async_slow")["attempts"] == 2


@pytest.mark.spec("W7")
@pytest.mark.parametrize("by", ["sleep", "busy", "progress", "checkpoint"])
def test_a_process_body_past_its_timeout_is_killed_and_tried_again(scene: Scene, by: str) -> None:
    """Whatever it does meanwhile: also while it tells the worker something all the time. Nobody else is hurt."""
    worker = scene.worker(app=APP, slots=2)
    (child,) = worker.wait_children()
    scene.put("brief", seconds=5)
    scene.put("process_slow", by=by)

    scene.wait_state("succeeded", "process_slow")

    first, second = scene.all("begin", "process_slow")
    assert first["pid"] != second["pid"]
    assert 1 < second["at"] - first["at"] < 9  # its time runs from before its first line
    assert scene.all("broken", "process_slow") == []
    assert scene.runs("process_slow") == [("retry", True, "TIMEOUT")]
    scene.wait_state("succeeded", "brief")
    assert scene.job("brief")["run_count"] == 1
    assert worker.children() == [child]


@pytest.mark.spec("W7")
def test_a_thread_that_heeds_its_timeout_costs_no_process(scene: Scene) -> None:
    """It looks whether it should end (``job.check()``), and does: its neighbour goes on, nothing is replaced."""
    worker = scene.worker(app=APP, slots=2)
    (child,) = worker.wait_children()
    scene.put("brief", seconds=4)
    scene.put("thread_heeding")

    scene.wait_state("succeeded", "thread_heeding", "brief")

    assert [event["by"] for event in scene.all("broken")] == ["Cancelled"]
    assert scene.runs("thread_heeding") == [("retry", True, "TIMEOUT")]
    assert scene.job("brief")["run_count"] == 1
    assert worker.children() == [child]


@pytest.mark.slow
@pytest.mark.spec("W7")
def test_an_async_body_that_swallows_its_timeout_costs_its_process_and_no_neighbour(scene: Scene) -> None:
    """It holds no slot for ever, and nobody runs beside it: the process is ended, then it is tried again."""
    worker = scene.worker(app=APP, slots=1)
    (child,) = worker.wait_children()
    scene.put("deaf_to_time", seconds=60)
    scene.wait("begin", "deaf_to_time")
    scene.put("quick")

    scene.wait_state("succeeded", "deaf_to_time", "quick")

    first, second = scene.all("begin", "deaf_to_time")
    assert first["pid"] != second["pid"]
    assert scene.all("swallowed")
    assert scene.runs("deaf_to_time") == [("timeout", True, "TIMEOUT")]
    assert scene.job("quick")["attempts"] == 1
    assert child not in worker.children()


@pytest.mark.slow
@pytest.mark.spec("W6", "W7")
def test_a_body_that_ended_in_time_is_not_overdue_while_its_outcome_waits_for_the_database(own_scene: Scene) -> None:
    """The clock stops when the body does. The outcome comes late, the body runs once, the process lives on."""
    worker = own_scene.worker(app=APP, heartbeat_ttl=40)
    (child,) = worker.wait_children()
    own_scene.put("thread_short")
    own_scene.wait("begin", "thread_short")

    own_scene.database.server.stop("immediate")
    own_scene.wait("end", "thread_short")
    pause(8)
    own_scene.database.server.start()

    own_scene.wait_state("succeeded", "thread_short")
    assert own_scene.job("thread_short")["run_count"] == 1
    assert own_scene.job("thread_short")["result"] == "in time"
    assert worker.children() == [child]
    always(lambda: len(own_scene.all("begin")) == 1, during=0.5)


@pytest.mark.spec("W7")
def test_the_start_of_a_job_process_does_not_count_against_the_body(scene: Scene) -> None:
    """Importing the app may take longer than the body may: every job's clock starts with its body."""
    worker = scene.worker(app="worker.apps.heavy_app:app", slots=2, leader=True)
    worker.wait_children()

    names = scene.put("light", count=2)

    scene.wait_state("succeeded", *names)
    for name in names:
        job = scene.job(name)
        assert (job["attempts"], job["run_count"]) == (1, 1)
