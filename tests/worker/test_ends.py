"""How a run ends, in each executor: results, errors and everything else that a body may return or raise.

A job ends with a code whatever its body does; neighbours of the same batch know nothing of it; nothing runs again that
should not, and nothing spins (catalogue PSN; source text 002, row 30).
"""

from __future__ import annotations

from typing import Any

import pytest

from waiting import always
from worker.apps.ends_app import ERRORS, RESULTS
from worker.scene import Scene

APP = "worker.apps.ends_app:app"
SLOTS = {"async": 8, "thread": 8, "process": 2}
executors = pytest.mark.parametrize("executor", SLOTS)


def put_all(scene: Scene, task: str, hows: list[str]) -> list[str]:
    """One job of each, with a good one before and after each: they share batches."""
    good = []
    for n, how in enumerate(hows):
        good += scene.put(task, key=f"good:{n}", how="good")
        scene.put(task, key=how, how=how)
    return good + scene.put(task, key="good:last", how="good")


def begun(scene: Scene, job: str) -> list[int]:
    return [event["run"] for event in scene.all("begin", job)]


def assert_at_rest(scene: Scene) -> None:
    """Nothing is running and nothing more is started."""
    count = len(scene.events())
    always(lambda: len(scene.events()) == count, during=0.6)
    assert scene.running() == 0
    assert scene.rows("SELECT * FROM fencepost.quarantine") == []


@executors
@pytest.mark.spec("W6", "R4", "C12")
def test_a_result_that_cannot_be_stored_fails_its_own_job_at_once(scene: Scene, executor: str) -> None:
    """Source text 002, row 30: one run, a code, a sentence; the neighbours' results are there. PSN-1."""
    good = put_all(scene, f"{executor}_end", [*RESULTS])

    worker = scene.worker(app=APP, slots=SLOTS[executor])

    scene.wait_state("failed", *RESULTS)
    scene.wait_state("succeeded", *good)
    for how in RESULTS:
        job = scene.job(how)
        assert (job["last_error_code"], job["attempts"]) == ("UNSTORABLE", 1), how
        assert 10 < len(job["last_error"]) < 400, how
        assert len(begun(scene, how)) == 1, how
    for job_id in good:
        assert scene.job(job_id)["result"] == {"number": 7, "text": "ä", "none": None}
        assert len(begun(scene, job_id)) == 1
    assert_at_rest(scene)
    assert len(worker.children()) == 1


@executors
@pytest.mark.spec("W6", "R4", "R8", "C12")
def test_whatever_a_body_raises_is_an_error_of_its_own_job(scene: Scene, executor: str) -> None:
    """Each is retried up to its bound and then failed with a code; no worker or job process ends of it. PSN-3, STK-6."""
    good = put_all(scene, f"{executor}_end", [*ERRORS])

    worker = scene.worker(app=APP, slots=SLOTS[executor])
    (child,) = worker.wait_children()

    scene.wait_state("failed", *ERRORS)
    scene.wait_state("succeeded", *good)
    for how in ERRORS:
        job = scene.job(how)
        code = "OUT_OF_MEMORY" if how == "memory" else "UNKNOWN"
        assert (job["last_error_code"], job["attempts"], job["crashes"]) == (code, 2, 0), how
        # what waited behind a slow neighbour may have been handed back before it began: that is no attempt
        assert [run for run in scene.runs(how) if run[1]] == [("retry", True, code)], how
        assert len(begun(scene, how)) == 2, how
        assert 0 < len(job["last_error"].encode()) <= 8192, how
    assert "a plain one" in scene.job("plain")["last_error"]
    assert "ValueError: no 9\n  | and 9" in scene.job("group")["last_error"]
    assert [len(begun(scene, job_id)) for job_id in good] == [1] * len(good)
    assert_at_rest(scene)
    assert worker.children() == [child]
    assert len({event["pid"] for event in scene.all("begin")}) <= (SLOTS[executor] if executor == "process" else 1)


@executors
@pytest.mark.spec("W1")
def test_nothing_that_a_body_leaves_in_its_context_reaches_the_next_job(scene: Scene, executor: str) -> None:
    """One slot, so one thread or process after the other."""
    names = scene.put(f"{executor}_end", count=5, how="good")

    scene.worker(app=APP, slots=1)

    scene.wait_state("succeeded", *names)
    assert [event["leaked"] for event in scene.all("begin")] == [""] * 5


@pytest.mark.spec("W1", "R6", "W11")
def test_a_job_process_that_ends_under_its_body_counts_a_crash_of_this_job_only(scene: Scene) -> None:
    """Also with code 0; the worker process goes on, with another job process."""
    worker = scene.worker(app=APP, slots=2)
    (child,) = worker.wait_children()
    scene.put("gone", key="ill", code=3)
    scene.put("gone", key="well-meant", code=0)
    scene.put("process_end", key="neighbour", how="good")

    scene.wait_state("succeeded", "ill", "well-meant", "neighbour")

    found: dict[str, Any] = {name: scene.job(name) for name in ("ill", "well-meant", "neighbour")}
    assert {name: (job["attempts"], job["crashes"]) for name, job in found.items()} == {
        "ill": (2, 1),
        "well-meant": (2, 1),
        "neighbour": (1, 0),
    }
    for name in ("ill", "well-meant"):
        assert [run for run in scene.runs(name) if run[1]] == [
            ("stale", True, "STALE")
        ]  # unspent: waited for a process
    assert scene.rows("SELECT error FROM fencepost.attempt WHERE spent ORDER BY error") == [
        ("its process ended: exit code 0",),
        ("its process ended: exit code 3",),
    ]
    assert worker.children() == [child]
