"""Who is idle hears of everything that became runnable, not only of what was enqueued (SPEC W10; NTF)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from waiting import pause
from worker.scene import Scene


def resubmit(scene: Scene) -> str:
    scene.put("raises_twice", key="again")
    scene.wait_state("failed", "again")
    pause(0.5)  # just after work a worker looks often
    scene.rows("SELECT fencepost.resubmit_v1('again', 'somebody', 'mended')")
    return "again"


def resume(scene: Scene) -> str:
    scene.rows("SELECT fencepost.queue_pause_v1('default', true, 'somebody')")
    scene.put("ok", key="paused")
    pause(0.3)
    assert scene.state("paused") == "queued"
    scene.rows("SELECT fencepost.queue_pause_v1('default', false, 'somebody')")
    return "paused"


def rescue(scene: Scene) -> str:
    scene.put("hang_once", key="lost")
    (begun,) = scene.wait("begin", "lost")
    os.kill(begun["pid"], signal.SIGKILL)
    return "lost"


def hand_back(scene: Scene) -> str:
    scene.put("hang_once", key="back")
    (begun,) = scene.wait("begin", "back")
    for worker in scene.workers:
        if begun["pid"] in worker.children():
            worker.send(signal.SIGTERM)
    return "back"


@pytest.mark.spec("W10", "R5", "W3", "C6")
@pytest.mark.parametrize("act", [resubmit, resume, rescue, hand_back], ids=lambda act: act.__name__)
def test_what_becomes_runnable_is_begun_without_a_poll(scene: Scene, act: Callable[[Scene], str]) -> None:
    """NTF-6: two workers that would poll in ten minutes; the job begins all the same."""
    for _ in range(2):
        scene.worker(
            app="failures.apps.trouble_app:app", shutdown_timeout=0.2, poll_interval=600, slots=2
        ).wait_children()
    pause(0.7)  # both have polled, and listen

    job_id = act(scene)

    scene.wait_state("succeeded", job_id, within=15)


@pytest.mark.spec("W10")
def test_without_notifications_a_job_is_begun_within_a_poll(scene: Scene) -> None:
    """NTF-3, NTF-10: ``--no-notify``; and a pause is a fact of the database, which no worker has to hear of."""
    scene.worker(notify=False, poll_interval=0.3, slots=4).wait_children()
    names = scene.put("noop", count=5)
    scene.wait_state("succeeded", *names)
    scene.rows("SELECT fencepost.queue_pause_v1('default', true, 'somebody')")
    late = scene.put("noop", key="late", count=5)
    scene.worker(notify=False, poll_interval=0.1, slots=4).wait_children()
    pause(0.8)

    assert {scene.state(name) for name in late} == {"queued"}
    assert {scene.job(name)["run_count"] for name in late} == {0}
    assert "listen" not in str(
        scene.rows("SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
    )
