"""What an independent review found at the edges of slots, drains, job processes and the event loop."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from processtable import is_alive
from waiting import always, eventually, pause
from worker.scene import Scene

APP = "worker.apps.edges_app:app"


# ---------------------------------------------------------------------------------------------------------------- slots


@pytest.mark.spec("W1", "W2")
def test_many_deep_queues_share_the_room_of_one_process(scene: Scene) -> None:
    """Each would claim hundreds ahead; together they must not claim more than the process can hold."""
    with scene.database.connect() as conn:
        for queue in "abcd":
            conn.execute(
                "SELECT count(*) FROM generate_series(1, 1500) AS i,"
                " LATERAL fencepost.enqueue('quick', '{}'::jsonb, %s || i, %s)",
                [queue, queue],
            )

    worker = scene.worker(app=APP, queues=dict.fromkeys("abcd", 1), heartbeat_ttl=20)
    children = worker.wait_children()

    eventually(lambda: scene.value("SELECT count(*) FROM fencepost.outcome") == 6000, within=60, every=0.2)
    assert worker.children() == children
    assert (
        scene.value("SELECT count(*) FROM fencepost.job j JOIN fencepost.outcome o USING (id) WHERE run_count > 1") == 0
    )


@pytest.mark.spec("W2")
def test_what_was_claimed_ahead_of_a_long_body_runs_elsewhere(scene: Scene) -> None:
    """After a thousand quick jobs a long one: those claimed behind it are not kept from idle workers."""
    first = scene.worker(app=APP)
    first.wait_children()
    quick = scene.put("quick", count=600)
    scene.wait_state("succeeded", quick[-1])
    eventually(lambda: scene.value("SELECT count(*) FROM fencepost.ready") == 0)
    scene.put("sleeps", count=4, seconds=15)
    scene.wait("begin", "sleeps:0")

    for _ in range(3):
        scene.worker(app=APP).wait_children()

    scene.wait("begin", count=4)
    assert not scene.all("end")  # the first one still runs
    assert {scene.job(f"sleeps:{n}")["attempts"] for n in range(4)} == {1}


@pytest.mark.spec("W1")
def test_a_blocked_loop_stops_no_thread_job(scene: Scene) -> None:
    scene.worker(app=APP, queues={"a": 1, "b": 2}).wait_children()
    scene.rows("SELECT fencepost.enqueue('blocks', '{\"seconds\": 6}', 'blocks', 'a')")
    scene.wait("begin", "blocks")
    pause(0.6)

    scene.rows("SELECT fencepost.enqueue('plain', '{}', 'plain', 'b')")
    scene.rows("SELECT fencepost.enqueue('sleeps', '{\"seconds\": 0}', 'sleeps', 'b')")

    scene.wait_state("succeeded", "plain")
    assert not scene.all("end", "blocks")
    scene.wait_state("succeeded", "sleeps", "blocks")
    assert scene.job("sleeps")["attempts"] == 1
    assert scene.job("sleeps")["run_count"] <= 3


@pytest.mark.spec("W1")
def test_as_many_job_processes_as_slots(scene: Scene) -> None:
    scene.worker(app=APP, slots=3).wait_children()
    scene.put("apart", key="first", seconds=0)
    scene.wait_state("succeeded", "first")

    with scene.database.connect() as conn, conn.transaction():
        for n in range(3):
            conn.execute("SELECT fencepost.enqueue('apart', '{\"seconds\": 9}', %s)", [f"apart:{n}"])

    scene.wait("begin", "apart:2")
    assert not [event for event in scene.all("end") if event["job"] != "first"]


# ------------------------------------------------------------------------------------------------------- job processes


@pytest.mark.spec("W11", "R6")
def test_the_death_of_a_job_process_is_seen_whoever_keeps_its_socket(scene: Scene) -> None:
    """A body forks, as multiprocessing does, and is killed."""
    scene.worker(app=APP).wait_children()
    scene.put("forks")

    scene.wait_state("succeeded", "forks", within=15)

    assert scene.runs("forks") == [("stale", True, "STALE")]


@pytest.mark.spec("W11")
def test_what_a_body_has_started_ends_with_it_before_it_runs_again(scene: Scene) -> None:
    scene.worker(app=APP).wait_children()
    scene.put("overstays")

    first, *_ = scene.wait("begin", "overstays", count=2)

    assert not is_alive(first["child"])
    scene.wait_state("succeeded", "overstays")


@pytest.mark.spec("W11")
def test_programs_of_a_process_body_heed_signals(scene: Scene) -> None:
    scene.worker(app=APP).wait_children()
    scene.put("terminates")

    scene.wait_state("succeeded", "terminates")

    assert scene.job("terminates")["result"] == -signal.SIGTERM


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2000, reason="so many files may not be open here")
@pytest.mark.spec("W1")
def test_job_processes_of_a_worker_with_many_open_files(scene: Scene) -> None:
    scene.worker(app="worker.apps.many_files_app:app").wait_children()
    scene.put("apart", seconds=0)

    scene.wait_state("succeeded", "apart")


@pytest.mark.spec("C6", "W12")
def test_a_body_that_got_no_process_has_not_begun(scene: Scene) -> None:
    """Nothing is spent, nothing is in doubt, and the reason can be read."""
    scene.worker(app="worker.apps.lame_app:app", slots=2).wait_children()
    scene.put("apart", seconds=0)
    scene.put("once_apart")

    for name in ("apart", "once_apart"):
        eventually(lambda name=name: scene.job(name)["snoozes"] > 0, within=30)  # type: ignore[misc]
        job = scene.job(name)
        assert (job["state"], job["attempts"], job["crashes"]) == ("queued", 0, 0)
        assert "no licence for a second process" in job["last_error"]
    assert scene.all("begin") == []


# ------------------------------------------------------------------------------------------------------ ends and drains


@pytest.mark.spec("W3")
def test_a_thread_of_the_loops_own_does_not_hold_the_exit(scene: Scene) -> None:
    """``asyncio.to_thread`` in a body, then SIGTERM: handed back, exit code 0, in time."""
    worker = scene.worker(app=APP, shutdown_timeout=0.5)
    (child,) = worker.wait_children()
    scene.put("in_thread", seconds=60)
    scene.wait("begin", "in_thread")

    worker.send(signal.SIGTERM)

    assert worker.ends(within=15) == 0
    assert (scene.state("in_thread"), scene.job("in_thread")["attempts"]) == ("queued", 0)
    assert not is_alive(child)


@pytest.mark.spec("W11", "C6")
def test_an_orphan_does_not_outlive_its_drain(scene: Scene) -> None:
    worker = scene.worker(app=APP, shutdown_timeout=0.5)
    (child,) = worker.wait_children()
    scene.put("in_thread", seconds=60)
    scene.wait("begin", "in_thread")

    worker.send(signal.SIGKILL)

    eventually(lambda: not is_alive(child), within=15)


@pytest.mark.spec("R8", "W10")
@pytest.mark.parametrize("executor", ["async", "thread", "process"])
def test_figures_and_progress_that_cannot_be_written_cost_no_outcome(scene: Scene, executor: str) -> None:
    """A sum that is no number is the body's error; a text that raises is left out. The slot is free again."""
    worker = scene.worker(app=APP)
    worker.wait_children()
    scene.put(f"counts_{executor}", key="counts")
    scene.put("quick")

    scene.wait_state("succeeded", "counts", "quick")

    assert [how for how, _, _ in scene.runs("counts")] == ["retry"]
    assert "must be a finite number" in scene.rows("SELECT error FROM fencepost.attempt")[0][0]


@pytest.mark.spec("W1", "W11")
def test_an_exit_in_a_task_that_a_body_started_is_no_exit_of_the_worker(scene: Scene) -> None:
    worker = scene.worker(app=APP, slots=4)
    children = worker.wait_children()
    scene.put("sleeps", key="neighbour", seconds=2)
    scene.put("once", seconds=2)
    scene.wait("begin", count=2)

    scene.put("leaves_an_exit")

    scene.wait_state("succeeded", "neighbour", "once", "leaves_an_exit")
    assert {scene.job(name)["run_count"] for name in ("neighbour", "once", "leaves_an_exit")} == {1}
    assert worker.children() == children


@pytest.mark.spec("W11")
def test_orphans_of_bodies_are_collected_while_the_worker_lives(scene: Scene) -> None:
    """SIG-7: no zombies gather under a supervisor that has adopted them."""
    worker = scene.worker(app=APP, slots=4)
    worker.wait_children()
    names = scene.put("leaves_an_orphan", count=8)
    scene.wait_state("succeeded", *names)

    def zombies() -> list[int]:
        found = map(int, Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split())
        return [pid for pid in found if not is_alive(pid)]

    pause(0.3)
    eventually(lambda: not zombies(), within=5)


@pytest.mark.spec("W3")
def test_what_a_claim_brings_after_the_stop_does_not_begin(scene: Scene) -> None:
    """The answer of the claim is a second late, and a signal comes meanwhile: all goes back, unspent."""
    worker = scene.worker(app="worker.apps.slow_answers_app:app", slots=2, shutdown_timeout=3, notify=False)
    worker.wait_children()
    scene.put("once", seconds=30)
    scene.put("sleeps", seconds=30)
    eventually(lambda: scene.running() > 0, every=0.005)

    worker.send(signal.SIGTERM)

    assert worker.ends() == 0
    assert scene.all("begin") == []
    assert [scene.state(name) for name in ("once", "sleeps")] == ["queued", "queued"]
    assert [scene.job(name)["attempts"] for name in ("once", "sleeps")] == [0, 0]


@pytest.mark.spec("W3")
def test_bodies_that_wait_for_a_process_do_not_begin_after_the_stop(scene: Scene) -> None:
    worker = scene.worker(app=APP, slots=3, shutdown_timeout=1)
    worker.wait_children()
    with scene.database.connect() as conn, conn.transaction():
        for n in range(3):
            conn.execute("SELECT fencepost.enqueue('apart', '{\"seconds\": 30}', %s)", [f"apart:{n}"])
    eventually(lambda: scene.running() > 0, every=0.005)

    worker.send(signal.SIGTERM)
    stopped = os.times().elapsed

    assert worker.ends() == 0
    assert os.times().elapsed - stopped < 10
    for n in range(3):
        assert (scene.state(f"apart:{n}"), scene.job(f"apart:{n}")["attempts"]) == ("queued", 0)
    count = len(scene.events())
    always(lambda: len(scene.events()) == count, during=0.3)


@pytest.mark.spec("W10")
def test_an_observer_that_exits_stops_nothing(scene: Scene) -> None:
    worker = scene.worker(app="worker.apps.watched_app:app")
    children = worker.wait_children()
    names = scene.put("quick", count=6)

    scene.wait_state("succeeded", *names)

    assert "observer" in worker.logged()
    assert worker.children() == children


@pytest.mark.spec("W9")
def test_a_checkpoint_waits_for_no_thread_of_the_bodies(scene: Scene) -> None:
    """All threads of ``asyncio.to_thread`` are busy for long."""
    scene.worker(app=APP, slots=64).wait_children()
    scene.put("in_thread", key="busy", count=40, seconds=30)
    scene.wait("begin", count=40)

    scene.put("saves")

    scene.wait_state("succeeded", "saves", within=15)
