"""Stops with real jobs (worker.md 2, signals; SPEC W3): what finishes, what goes back, what does not."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from processtable import is_alive
from waiting import eventually, pause
from worker.scene import SLOW, Scene


@pytest.mark.spec("W3")
@pytest.mark.parametrize("to_all", [False, True], ids=["supervisor", "every process, as systemd does"])
def test_a_stop_lets_short_jobs_finish_and_hands_back_the_rest_unspent(scene: Scene, to_all: bool) -> None:
    worker = scene.worker(processes=2, slots=2)
    short = scene.put("sleep", key="short", count=2, seconds=1)
    long = scene.put("sleep", key="long", count=2, seconds=60)
    scene.wait("begin", count=4)

    children = worker.children()
    worker.send(signal.SIGTERM)
    for pid in children if to_all else ():
        os.kill(pid, signal.SIGTERM)

    assert worker.ends() == 0
    assert {scene.state(name) for name in short} == {"succeeded"}
    assert {(scene.state(name), scene.job(name)["attempts"]) for name in long} == {("queued", 0)}
    assert scene.running() == 0


@pytest.mark.spec("W3")
def test_a_second_signal_hands_back_at_once(scene: Scene) -> None:
    worker = scene.worker(processes=2, slots=2, shutdown_timeout=60)
    names = scene.put("sleep", count=4, seconds=60)
    scene.wait("begin", count=4)
    worker.send(signal.SIGTERM)
    pause(0.4)

    worker.send(signal.SIGINT)

    began = time.monotonic()
    assert worker.ends() == 0
    assert time.monotonic() - began < 10
    assert {(scene.state(name), scene.job(name)["attempts"]) for name in names} == {("queued", 0)}


@pytest.mark.spec("W3")
def test_a_body_that_must_not_run_twice_is_not_handed_back(scene: Scene) -> None:
    """max_attempts=1: it ends as a lost lease does."""
    worker = scene.worker(shutdown_timeout=0.2)
    scene.put("sleep_once", seconds=60)
    scene.wait("begin", "sleep_once")

    worker.send(signal.SIGTERM)

    assert worker.ends() == 0
    assert scene.state("sleep_once") == "failed"


@pytest.mark.spec("W3", "W9")
def test_a_job_that_hears_of_the_stop_saves_a_checkpoint_and_goes_on_elsewhere(scene: Scene) -> None:
    worker = scene.worker(shutdown_timeout=10)
    scene.put("stoppable")
    scene.wait("begin", "stoppable")

    worker.send(signal.SIGTERM)

    assert worker.ends() == 0
    scene.worker()
    scene.wait_state("succeeded", "stoppable")
    (resumed,) = scene.all("resumed")
    assert resumed["checkpoint"] == {"half": True}
    assert scene.job("stoppable")["attempts"] == 1


@pytest.mark.spec("W3", "W7")
def test_a_thread_that_never_ends_neither_runs_beside_itself_nor_keeps_the_process(scene: Scene) -> None:
    """Its lease is kept until its process ends; that is no clean stop."""
    worker = scene.worker(shutdown_timeout=0.5)
    scene.put("thread_sleep", seconds=600)
    (first,) = scene.wait("begin", "thread_sleep")
    scene.worker()

    worker.send(signal.SIGTERM)

    assert worker.ends() == 1
    second = scene.wait("begin", "thread_sleep", count=2)[1]
    assert second["pid"] != first["pid"]
    assert not is_alive(first["pid"])
    assert scene.job("thread_sleep")["attempts"] == 1


@pytest.mark.spec("W3", "W7")
def test_process_bodies_are_killed_at_the_end_of_the_grace(scene: Scene) -> None:
    worker = scene.worker(shutdown_timeout=0.5)
    scene.put("process_sleep", seconds=600)
    (body,) = scene.wait("begin", "process_sleep")

    worker.send(signal.SIGTERM)

    assert worker.ends() == 0
    assert not is_alive(body["pid"])
    assert (scene.state("process_sleep"), scene.job("process_sleep")["attempts"]) == ("queued", 0)


@pytest.mark.spec("W3")
def test_a_signal_to_one_worker_process_drains_it_and_another_takes_its_place(scene: Scene) -> None:
    worker = scene.worker(processes=2, slots=1, shutdown_timeout=1)
    first = worker.wait_children(2)
    scene.put("sleep", seconds=60, then=0)
    (begun,) = scene.wait("begin", "sleep")

    os.kill(begun["pid"], signal.SIGTERM)

    scene.wait_state("succeeded", "sleep")
    assert scene.job("sleep")["attempts"] == 1
    eventually(lambda: len(set(worker.children()) - set(first)) == 1, within=SLOW)


def _soak(scene: Scene, how: str, rng: random.Random, jobs: int) -> None:
    """Random moments; nothing lost, nothing left running, no attempt spent that no death explains."""
    names = [
        name for n in range(jobs) for name in scene.put("sleep", key=f"{how}:{n}", seconds=round(rng.random() / 5, 3))
    ]
    worker = scene.worker(processes=2, slots=16, shutdown_timeout=0.5)
    children = worker.wait_children(2)
    pause(rng.random() * 0.8)
    if how == "kill":
        os.kill(rng.choice(children), signal.SIGKILL)
        pause(0.2)
    worker.send(signal.SIGTERM)
    if how == "twice":
        pause(0.21 + rng.random() * 0.3)
        worker.send(signal.SIGTERM)

    assert worker.ends() == 0, worker.logged()

    places = scene.rows("SELECT job_id, state, attempts, crashes FROM fencepost.jobs WHERE job_id LIKE %s", f"{how}:%")
    assert len(places) == len(names)
    assert {state for _, state, *_ in places} <= {"queued", "succeeded"}
    assert all(attempts == crashes for _, state, attempts, crashes in places if state == "queued")


@pytest.mark.slow
@pytest.mark.spec("W3", "W11")
@pytest.mark.parametrize("how", ["term", "twice", "kill"])
def test_stops_at_random_moments_lose_nothing(scene: Scene, how: str) -> None:
    _soak(scene, how, random.Random(), jobs=80)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["term", "twice", "kill"])
@pytest.mark.parametrize("seed", range(6))
def test_stops_at_random_moments_lose_nothing_in_800_jobs(scene: Scene, how: str, seed: int) -> None:
    _soak(scene, how, random.Random(seed), jobs=800)
