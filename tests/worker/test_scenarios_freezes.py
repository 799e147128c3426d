"""Processes that stand still, and code that lets nothing else run (worker.md 2, 3; SPEC C5, W5; review B7)."""

from __future__ import annotations

import os
import signal

import pytest

from processtable import is_alive, parent_of
from waiting import eventually
from worker.scene import SLOW, Scene


@pytest.mark.spec("C5", "C3", "W5")
def test_a_frozen_worker_process_loses_its_job_and_gives_up_when_it_thaws(scene: Scene) -> None:
    """The supervisor stops beating for it; another takes over; the zombie's handler is cancelled, its word refused."""
    worker = scene.worker(processes=2)
    worker.wait_children(2)
    scene.put("sleep", seconds=60, then=0)
    (first,) = scene.wait("begin", "sleep")

    os.kill(first["pid"], signal.SIGSTOP)

    second = scene.wait("begin", "sleep", count=2)[1]
    assert second["pid"] != first["pid"]
    scene.wait_state("succeeded", "sleep")
    os.kill(first["pid"], signal.SIGCONT)
    (broken,) = scene.wait("broken", "sleep")
    assert (broken["pid"], broken["run"]) == (first["pid"], 1)
    assert scene.job("sleep")["run_count"] == 2
    assert [how for how, *_ in scene.runs("sleep")] == ["stale"]
    eventually(
        lambda: scene.value("SELECT sum(refused) FROM fencepost.attempt") > 0, within=SLOW
    )  # the late word is on record


@pytest.mark.spec("C5", "W5")
def test_a_job_process_whose_worker_stands_still_ends_before_its_lease(scene: Scene) -> None:
    """Nobody can tell it that its lease is lost: it sees it by itself, and nothing of it runs beside the next run."""
    scene.worker(processes=2).wait_children(2)
    scene.put("family")
    (family,) = scene.wait("family")
    frozen = parent_of(family["pid"])

    os.kill(frozen, signal.SIGSTOP)

    eventually(lambda: not is_alive(family["pid"]) and not is_alive(family["child"]), within=SLOW)
    assert len(scene.all("begin", "family")) == 1, "its lease was still good"
    scene.wait_state("succeeded", "family")
    os.kill(frozen, signal.SIGCONT)
    assert scene.job("family")["run_count"] == 2
    assert [how for how, *_ in scene.runs("family")] == ["stale"]


@pytest.mark.spec("C5", "W5")
def test_a_frozen_supervisor_makes_its_children_give_up_before_their_leases_end(scene: Scene) -> None:
    """No end of file tells them: the local deadline runs from the last beat that they heard of."""
    frozen = scene.worker(leader=False)
    frozen.wait_children()
    scene.put("sleep", seconds=60, then=0)
    (first,) = scene.wait("begin", "sleep")
    scene.worker().wait_children()

    os.kill(frozen.pid, signal.SIGSTOP)

    (broken,) = scene.wait("broken", "sleep")
    second = scene.wait("begin", "sleep", count=2)[1]
    assert broken["pid"] == first["pid"] != second["pid"]
    assert broken["at"] < second["at"]
    os.kill(frozen.pid, signal.SIGCONT)
    scene.wait_state("succeeded", "sleep")


@pytest.mark.spec("C5", "C6")
def test_worker_and_supervisor_frozen_another_worker_takes_over(scene: Scene) -> None:
    """B7: as a paused machine. At SIGCONT the late beat and outcome change nothing."""
    frozen = scene.worker(leader=False)
    (child,) = frozen.wait_children()
    scene.put("sleep", seconds=60, then=0)
    scene.wait("begin", "sleep")
    scene.worker().wait_children()

    for pid in (frozen.pid, child):
        os.kill(pid, signal.SIGSTOP)

    scene.wait("begin", "sleep", count=2)
    scene.wait_state("succeeded", "sleep")
    for pid in (child, frozen.pid):
        os.kill(pid, signal.SIGCONT)
    (broken,) = scene.wait("broken", "sleep")
    assert broken["pid"] == child
    assert scene.job("sleep")["run_count"] == 2
    assert len(scene.all("end", "sleep")) == 1


@pytest.mark.slow
@pytest.mark.spec("C5")
def test_nothing_in_user_code_starves_the_beat(scene: Scene) -> None:
    """A blocked loop, a C call that sleeps with the GIL, a catastrophic expression: 3 × ttl, or more than one in one match."""
    scene.worker(processes=3, heartbeat_interval=0.4, heartbeat_ttl=4)
    scene.put("block_loop", seconds=12)
    scene.put("gil_sleep", seconds=12)
    scene.put("regex", seconds=5)

    scene.wait_state("succeeded", "block_loop", "gil_sleep", "regex")

    for name in ("block_loop", "gil_sleep", "regex"):
        assert (scene.job(name)["run_count"], scene.job(name)["attempts"]) == (1, 1)
    assert scene.value("SELECT max(max_gap_s) FROM fencepost.outcome") < 4


@pytest.mark.spec("C5", "W2")
@pytest.mark.parametrize("fault", ["block_loop", "gil_sleep"])
def test_neighbours_of_a_blocked_process_run_elsewhere(scene: Scene, fault: str) -> None:
    """worker.md 3.11: what its process claimed and cannot start goes back, unspent; it claims no more."""
    scene.worker(processes=2, slots=8).wait_children(2)
    scene.put(fault, seconds=5)
    (fault_begun,) = scene.wait("begin", fault)

    names = scene.put("noop", count=20)

    scene.wait_state("succeeded", *names)
    ends = [event["at"] for event in scene.all("end") if event["job"].startswith("noop")]
    assert max(ends) < fault_begun["at"] + 5
    assert {scene.job(name)["attempts"] for name in names} == {1}
    scene.wait_state("succeeded", fault)


@pytest.mark.slow
@pytest.mark.spec("C5")
def test_64_busy_threads_on_full_cores_lose_no_lease(scene: Scene) -> None:
    scene.worker(processes=2, slots=32, heartbeat_ttl=15).wait_children(2)
    names = scene.put("busy_thread", count=64, seconds=4)

    scene.wait("begin", count=64)

    scene.wait_state("succeeded", *names)
    assert scene.value("SELECT max(run_count) FROM fencepost.outcome") == 1
    assert (scene.value("SELECT max(max_gap_s) FROM fencepost.outcome") or 0) < 5


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.spec("C5")
def test_the_beat_at_full_length_defaults(scene: Scene) -> None:
    """5 s and 30 s: a held GIL for 90 s, a blocked loop for 90 s, 64 busy threads for 40 s."""
    scene.worker(processes=4, slots=32, heartbeat_interval=5, heartbeat_ttl=30).wait_children(4)
    scene.put("gil_sleep", seconds=90)
    scene.put("block_loop", seconds=90)
    names = scene.put("busy_thread", count=64, seconds=40)

    scene.wait_state("succeeded", "gil_sleep", "block_loop", *names, within=240)

    # what a blocked process had claimed and not begun was handed back: another run, but no attempt and no lost lease
    assert scene.value("SELECT max(attempts) FROM fencepost.outcome") == 1
    assert scene.value("SELECT count(*) FROM fencepost.attempt WHERE how = 'stale'") == 0
    assert scene.value("SELECT max(max_gap_s) FROM fencepost.outcome") < 10


@pytest.mark.nightly
@pytest.mark.spec("C5", "W5")
def test_a_frozen_child_at_full_length_defaults(scene: Scene) -> None:
    """Gone after patience (5 s) and ttl (30 s), not earlier than the ttl."""
    scene.worker(processes=2, heartbeat_interval=5, heartbeat_ttl=30).wait_children(2)
    scene.put("sleep", seconds=300, then=0)
    (first,) = scene.wait("begin", "sleep")

    os.kill(first["pid"], signal.SIGSTOP)

    second = scene.wait("begin", "sleep", count=2, within=60)[1]
    assert 24 < second["at"] - first["at"] < 45
    os.kill(first["pid"], signal.SIGCONT)
    scene.wait("broken", "sleep")
    scene.wait_state("succeeded", "sleep")
