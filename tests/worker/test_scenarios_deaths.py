"""Worker processes and supervisors that die, with real jobs (worker.md 2; SPEC W11, C5, R6; review A15)."""

from __future__ import annotations

import os
import signal
import time

import pytest

from processtable import is_alive, parent_of
from waiting import eventually
from worker.scene import SLOW, Scene


@pytest.mark.spec("W11", "C6", "R6")
def test_kill_9_of_a_worker_process(scene: Scene) -> None:
    """Started jobs run again within 2 s and count a crash; nobody waits for the ttl."""
    worker = scene.worker(processes=2, slots=2, heartbeat_interval=5, heartbeat_ttl=60)
    names = scene.put("sleep", count=4, seconds=60, then=0)
    begun = scene.wait("begin", count=4)
    victim = begun[0]["pid"]
    hit = {event["job"] for event in begun if event["pid"] == victim}

    os.kill(victim, signal.SIGKILL)

    for name in hit:
        again = scene.wait("begin", name, count=2)[1]
        assert again["pid"] != victim
    scene.wait_state("succeeded", *hit)
    for name in names:
        job = scene.job(name)
        assert (job["attempts"], job["crashes"]) == ((2, 1) if name in hit else (1, 0))
    assert worker.process.poll() is None


@pytest.mark.spec("R6", "W11")
def test_a_job_that_kills_its_process_is_stopped_and_its_neighbour_is_not_condemned(scene: Scene) -> None:
    """max_crashes: CRASH_LOOP for the poison; whoever shared the process goes on."""
    scene.worker(processes=1, slots=2)
    scene.put("sleep", seconds=60, then=1)
    scene.wait("begin", "sleep")

    scene.put("killer")

    scene.wait_state("failed", "killer")
    assert scene.job("killer")["last_error_code"] == "CRASH_LOOP"
    scene.wait_state("succeeded", "sleep")


@pytest.mark.spec("W11")
def test_no_body_is_left_when_its_job_runs_again(scene: Scene) -> None:
    """A15 (b): the job process, its child, and a grandchild in a session of its own die before the rescue."""
    scene.worker(processes=2)
    scene.put("family")
    (family,) = scene.wait("family")
    parent = next(pid for pid in scene.workers[0].children() if _is_ancestor(pid, family["pid"]))

    os.kill(parent, signal.SIGKILL)

    again = scene.wait("begin", "family", count=2)[1]
    assert again["run"] == 2
    assert [pid for pid in (family["pid"], family["child"], family["stray"]) if is_alive(pid)] == []
    scene.wait_state("succeeded", "family")


@pytest.mark.spec("C5")
def test_kill_9_of_the_supervisor(scene: Scene) -> None:
    """Its children beat for themselves, finish what is short, hand back the rest unspent, and end."""
    worker = scene.worker(processes=2, slots=2)
    children = worker.wait_children(2)
    short = scene.put("sleep", key="short", count=2, seconds=1)
    long = scene.put("sleep", key="long", count=2, seconds=60)
    scene.wait("begin", count=4)

    worker.send(signal.SIGKILL)

    worker.ends()
    eventually(lambda: not any(is_alive(pid) for pid in children), within=SLOW)
    assert scene.running() == 0
    assert {scene.state(name) for name in short} == {"succeeded"}
    assert {(scene.state(name), scene.job(name)["attempts"]) for name in long} == {("queued", 0)}


@pytest.mark.spec("C5", "C3")
def test_kill_9_of_the_supervisor_while_a_handler_holds_the_gil(scene: Scene) -> None:
    """The known hole (worker.md 3.3): nobody can beat. The fence refuses the body's late outcome."""
    worker = scene.worker()
    (child,) = worker.wait_children()
    scene.put("gil_sleep", seconds=6)
    scene.wait("begin", "gil_sleep")
    worker.send(signal.SIGKILL)
    worker.ends()

    other = scene.worker(app="scenario_app:app")

    other.wait_children()
    scene.wait("begin", "gil_sleep", count=2)
    eventually(lambda: not is_alive(child), within=SLOW)
    scene.wait_state("succeeded", "gil_sleep")
    assert scene.job("gil_sleep")["run_count"] == 2
    assert [how for how, *_ in scene.runs("gil_sleep")] == ["stale"]


@pytest.mark.nightly
@pytest.mark.spec("W11")
def test_kill_9_with_full_cores(scene: Scene) -> None:
    """32 busy threads in each of two processes on two cores, at full-length defaults."""
    scene.worker(processes=2, slots=32, heartbeat_interval=5, heartbeat_ttl=30)
    scene.put("busy_thread", count=64, seconds=12)
    begun = scene.wait("begin", count=64)
    victim = begun[0]["pid"]

    os.kill(victim, signal.SIGKILL)

    when = time.time()
    again = scene.wait("begin", count=65)[64]
    assert again["at"] - when < 2
    scene.wait_state("succeeded", *[f"busy_thread:{n}" for n in range(64)], within=120)


def _is_ancestor(pid: int, of: int) -> bool:
    while of > 1:
        if of == pid:
            return True
        of = parent_of(of)
    return False
