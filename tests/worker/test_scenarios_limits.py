"""Bodies that do not end by themselves (worker.md 2; SPEC W7; review A15 f)."""

from __future__ import annotations

import pytest

from worker.scene import Scene


@pytest.mark.spec("W7")
def test_a_handler_that_holds_the_gil_past_its_maximum_duration_is_killed(scene: Scene) -> None:
    """No timer of its own process can fire: the supervisor's does. The neighbour loses no attempt."""
    scene.worker(slots=2)
    scene.put("sleep", seconds=60, then=0)
    scene.wait("begin", "sleep")

    scene.put("gil_hang", seconds=60)

    scene.wait_state("succeeded", "gil_hang", "sleep")
    assert scene.runs("gil_hang") == [("timeout", True, "TIMEOUT")]
    assert scene.runs("sleep") == [("release", False, None)]
    assert (scene.job("sleep")["attempts"], scene.job("sleep")["crashes"]) == (1, 0)


@pytest.mark.spec("W7", "W3")
def test_a_thread_that_never_returns_costs_its_process_and_no_neighbour(scene: Scene) -> None:
    """It keeps its lease until the process is recycled, so that nobody runs beside it; then the timeout path."""
    scene.worker(queues={"default": 3})
    scene.put("sleep", seconds=60, then=0)
    scene.wait("begin", "sleep")
    scene.put("thread_forever")

    scene.wait_state("succeeded", "thread_forever", "sleep")

    first, second = scene.all("begin", "thread_forever")
    assert first["pid"] != second["pid"]
    assert scene.runs("thread_forever") == [("timeout", True, "TIMEOUT")]
    assert scene.job("sleep")["crashes"] == 0


@pytest.mark.spec("C3", "W7")
def test_a_thread_that_returns_late_changes_nothing(scene: Scene) -> None:
    """A zombie inside a living process: its time was over, so its success is none."""
    scene.worker()
    scene.put("thread_late", seconds=0.9)

    scene.wait_state("succeeded", "thread_late")

    assert scene.runs("thread_late") == [("timeout", True, "TIMEOUT")] or [
        (spent, code) for _, spent, code in scene.runs("thread_late")
    ] == [(True, "TIMEOUT")]
    assert scene.job("thread_late")["run_count"] == 2
