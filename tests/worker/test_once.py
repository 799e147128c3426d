"""Bodies that must not run twice, on every path that ends a run early (SPEC W3, W12; source text 002, row 5).

``max_attempts=1``: a lost run ends ``failed``. ``at_most_once``: ``in_doubt`` where it is unknown whether the body had
its effect, ``failed`` where the body itself raised. And what never began may begin later: it has had no effect.
"""

from __future__ import annotations

import os
import signal

import pytest

from waiting import always
from worker.scene import Scene

APP = "worker.apps.once_app:app"
kinds = pytest.mark.parametrize(("task", "lost"), [("single", "failed"), ("at_most_once", "in_doubt")])


def assert_ran_once(scene: Scene, job_id: str, state: str, code: str | None) -> None:
    scene.wait_state(state, job_id)
    job = scene.job(job_id)
    assert (job["last_error_code"], job["attempts"], job["run_count"]) == (code, 1, 1)
    always(lambda: len(scene.all("begin", job_id)) == 1, during=0.5)


@kinds
@pytest.mark.spec("W12", "W3")
def test_a_stop_that_overruns_it(scene: Scene, task: str, lost: str) -> None:
    """Source text 002, rows 5 and 19: not handed back, since its body had begun."""
    worker = scene.worker(app=APP, shutdown_timeout=0.3)
    scene.put(task, seconds=60)
    scene.wait("begin", task)

    worker.send(signal.SIGTERM)

    assert worker.ends() == 0
    scene.worker(app=APP)
    assert_ran_once(scene, task, lost, "STALE")


@kinds
@pytest.mark.spec("W12", "C6")
def test_its_start_is_durable_before_it_begins(scene: Scene, task: str, lost: str) -> None:
    """Not only with the next beat: a machine that is lost before that leaves no doubt that it had begun."""
    scene.worker(app=APP, leader=False, heartbeat_interval=60, heartbeat_ttl=600)
    scene.put(task, seconds=600)

    scene.wait("begin", task)

    assert scene.rows("SELECT started_at IS NOT NULL, heartbeat_at FROM fencepost.running") == [(True, None)]
    scene.rows("UPDATE fencepost.running SET claimed_at = claimed_at - interval '1 h' RETURNING id")
    scene.rows("SELECT fencepost.rescue_v1(10)")
    assert_ran_once(scene, task, lost, "STALE")


@kinds
@pytest.mark.spec("W12", "C6", "W11")
def test_a_worker_process_that_dies_with_it(scene: Scene, task: str, lost: str) -> None:
    scene.worker(app=APP, processes=2)
    scene.put(task, seconds=60)
    (begun,) = scene.wait("begin", task)

    os.kill(begun["pid"], signal.SIGKILL)

    assert_ran_once(scene, task, lost, "STALE")


@kinds
@pytest.mark.spec("W12", "C6", "W5")
def test_a_database_that_stays_away_longer_than_the_lease(own_scene: Scene, task: str, lost: str) -> None:
    worker = own_scene.worker(app=APP)
    worker.wait_children()
    own_scene.put(task, seconds=60)
    own_scene.wait("begin", task)
    worker.may_end = True

    own_scene.database.server.stop("immediate")

    own_scene.wait("broken", task)
    assert worker.ends() == 1
    own_scene.database.server.start()
    own_scene.worker(app=APP)
    assert_ran_once(own_scene, task, lost, "STALE")


@pytest.mark.spec("W12", "W7")
@pytest.mark.parametrize(
    ("task", "how", "state", "code"),
    [
        ("single", "raise", "failed", "UNKNOWN"),
        ("at_most_once", "raise", "failed", "UNKNOWN"),
        ("at_most_once", "pause", "failed", "RATE_LIMITED"),
        ("single", "kill", "failed", "STALE"),
        ("at_most_once", "kill", "in_doubt", "STALE"),
    ],
)
def test_an_end_of_its_own(scene: Scene, task: str, how: str, state: str, code: str) -> None:
    """What the body raised is known; a crash leaves in doubt. A pause that somebody else asked for is no consent."""
    scene.worker(app=APP)

    scene.put(task, how=how)

    assert_ran_once(scene, task, state, code)


@pytest.mark.spec("W12", "W7")
@pytest.mark.parametrize(("task", "state"), [("single_short_time", "failed"), ("at_most_once_short_time", "in_doubt")])
def test_a_timeout(scene: Scene, task: str, state: str) -> None:
    scene.worker(app=APP)

    scene.put(task)

    assert_ran_once(scene, task, state, "TIMEOUT")


@pytest.mark.spec("W12")
@pytest.mark.parametrize("task", ["single", "at_most_once"])
def test_a_body_may_hand_itself_back_in_so_many_words(scene: Scene, task: str) -> None:
    scene.worker(app=APP)

    scene.put(task, how="snooze")

    scene.wait_state("succeeded", task)
    assert [event["run"] for event in scene.all("begin", task)] == [1, 2]
    assert scene.job(task)["attempts"] == 1


@pytest.mark.spec("W12", "W2", "W3")
@pytest.mark.parametrize("task", ["single", "at_most_once"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_claimed_and_never_began_runs_later_and_once(scene: Scene, task: str, end: str) -> None:
    """Behind short jobs some are claimed ahead. No end of their process may make them fail or doubt: nothing happened."""
    worker = scene.worker(app=APP, slots=1, shutdown_timeout=0.3)
    scene.wait_state("succeeded", *scene.put("plain", key="short", count=30))
    scene.put("plain", key="long", seconds=60)
    (long,) = scene.wait("begin", "long")
    names = scene.put(task, count=3)
    scene.wait_state("running", names[0])

    if end == "stop":
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0
    else:
        os.kill(long["pid"], signal.SIGKILL)
    scene.worker(app=APP, slots=4)

    scene.wait_state("succeeded", *names)
    for name in names:
        assert scene.job(name)["attempts"] == 1
        assert len(scene.all("begin", name)) == 1
    assert scene.runs(names[0]) == [("release", False, None)]


@pytest.mark.spec("W2")
@pytest.mark.parametrize("task", ["single", "at_most_once"])
def test_what_must_not_run_twice_is_claimed_for_free_slots_only(scene: Scene, task: str) -> None:
    """Whoever has a free slot gets it. The first of them may be met by surprise; those that come later are left."""
    scene.worker(app=APP, slots=1, shutdown_timeout=0.3)
    scene.wait_state("succeeded", *scene.put("plain", key="short", count=30))
    scene.wait_state("succeeded", *scene.put(task, key="met"))
    scene.put("plain", key="long", seconds=60)
    scene.wait("begin", "long")

    names = scene.put(task, count=3)

    always(lambda: {scene.state(name) for name in names} == {"queued"}, during=0.5)
    scene.worker(app=APP, slots=3)
    scene.wait_state("succeeded", *names)
    assert [scene.job(name)["run_count"] for name in names] == [1, 1, 1]
