"""What a worker promises in plain words, where no other story shows the whole of it (docs/promises.md)."""

from __future__ import annotations

import os
import signal

import pytest

from waiting import always
from worker.scene import Scene


@pytest.mark.spec("E2", "W11")
def test_a_body_that_died_after_its_effect_runs_again_and_the_effect_happens_once(scene: Scene) -> None:
    """Row 4: the key is the same in every run of the job, and another for another job."""
    scene.worker(app="worker.apps.effect_app:app")
    scene.put("charge", key="order 7", order=7)
    scene.put("charge", key="order 8", order=8)

    scene.wait_state("succeeded", "order 7", "order 8")

    keys = set()
    for name in ("order 7", "order 8"):
        assert [event["run"] for event in scene.all("begin", name)] == [1, 2]
        (charged,), (known,) = scene.all("charged", name), scene.all("known", name)
        assert charged["key"] == known["key"]
        keys.add(charged["key"])
    assert len(keys) == 2


@pytest.mark.spec("C4", "C10")
def test_a_lease_is_beaten_at_every_interval_by_the_databases_clock(scene: Scene) -> None:
    """Row 7: a job as long as ten intervals; the largest gap between two beats is kept with the run."""
    scene.worker(heartbeat_interval=0.3, heartbeat_ttl=5, slots=2)
    scene.put("sleep", seconds=3)

    scene.wait_state("succeeded", "sleep")

    ((beaten, gap),) = scene.rows(
        "SELECT extract(epoch FROM last_beat_at - claimed_at), max_gap_s FROM fencepost.outcome"
    )
    assert beaten > 2
    assert 0.2 < gap < 1.2


@pytest.mark.spec("W3")
def test_a_worker_that_drains_takes_nothing_new(scene: Scene) -> None:
    """Row 19: the short one finishes, what is enqueued meanwhile stays queued, the exit code is 0."""
    worker = scene.worker(slots=4, shutdown_timeout=20)
    scene.put("sleep", key="short", seconds=2)
    scene.wait("begin", "short")

    worker.send(signal.SIGTERM)
    always(lambda: worker.process.poll() is None, during=0.3)
    scene.put("noop")

    assert worker.ends() == 0
    assert scene.state("short") == "succeeded"
    assert scene.state("noop") == "queued"
    assert scene.job("noop")["run_count"] == 0
    assert scene.all("begin", "noop") == []


@pytest.mark.spec("C6", "W11", "L3")
def test_a_crash_spends_an_attempt_and_is_readable_on_the_job(scene: Scene) -> None:
    """Rows 2, 3 and 9: the run that was lost is one of max_attempts, and says what became of it."""
    scene.worker()
    scene.put("sleep", seconds=60, then=0)
    (begun,) = scene.wait("begin", "sleep")

    os.kill(begun["pid"], signal.SIGKILL)

    scene.wait_state("succeeded", "sleep")
    job = scene.job("sleep")
    assert (job["attempts"], job["run_count"], job["crashes"]) == (2, 2, 1)
    runs = scene.rows("SELECT run_count, how, spent, error_code, error FROM fencepost.runs ORDER BY run_count")
    assert runs == [(1, "stale", True, "STALE", "the worker process died"), (2, "succeeded", True, None, None)]
