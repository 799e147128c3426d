"""How soon and in which order jobs start (SPEC C2, W1, W2; source text 002, rows 6 and 14 to 18)."""

from __future__ import annotations

import random
import statistics
from datetime import UTC, datetime
from typing import Any

import pytest

from waiting import eventually, pause
from worker.scene import SLOW, Scene


def put_many(scene: Scene, count: int, statement: str, *values: Any) -> None:
    """Many by one statement, without a word to the workers; ``n`` counts from 1."""
    with scene.database.connect() as conn:
        conn.execute(
            f"SELECT fencepost.enqueue({statement}, p_notify => false) FROM generate_series(1, {count}) n".encode(),
            values or None,
        )


def span(scene: Scene) -> float:
    """Seconds from the first beginning to the last end."""
    return float(max(event["at"] for event in scene.all("end")) - min(event["at"] for event in scene.all("begin")))


def delays(scene: Scene) -> list[float]:
    """Seconds from each job's commit to its body."""
    made = dict(scene.rows("SELECT job_id, created_at FROM fencepost.job"))
    return [
        (datetime.fromtimestamp(event["at"], UTC) - made[event["job"]]).total_seconds() for event in scene.all("begin")
    ]


@pytest.mark.spec("W2")
def test_one_slot_takes_the_next_job_as_soon_as_one_ends(scene: Scene) -> None:
    """Row 15: 20 jobs of 0.1 s take about 2 s; a worker that waited for its poll would need 20 polls of 3 s."""
    names = scene.put("sleep", count=20, seconds=0.1)

    scene.worker(slots=1, poll_interval=3)

    scene.wait_state("succeeded", *names)
    assert 2.0 <= span(scene) < 3.5


@pytest.mark.spec("W2")
def test_a_deep_queue_is_worked_without_a_poll_between_batches(scene: Scene) -> None:
    """Row 14: ten times as many jobs as slots, the poll longer than the whole."""
    names = scene.put("sleep", count=100, seconds=0.05)

    scene.worker(slots=10, poll_interval=5)

    scene.wait_state("succeeded", *names)
    assert span(scene) < 3
    assert max(_beside(scene)) == 10


@pytest.mark.spec("W2")
def test_an_idle_worker_that_nobody_wakes_finds_a_job_within_its_poll(scene: Scene) -> None:
    """Row 16: at most poll_interval; and it does wait, or the bound would say nothing."""
    scene.worker(poll_interval=0.6, notify=False).wait_children()
    for n in range(8):
        pause(0.25 + random.random() * 0.3)
        scene.put("noop", key=f"at {n}")
        scene.wait_state("succeeded", f"at {n}")

    found = delays(scene)

    assert max(found) < 0.6 + 0.3, found
    assert statistics.mean(found) > 0.05, found


@pytest.mark.spec("W2")
def test_an_idle_worker_is_woken(scene: Scene) -> None:
    """A poll of 30 s does not show: a few milliseconds, and on a loaded machine a few more."""
    scene.worker(poll_interval=30).wait_children()
    scene.put("noop", key="first")
    scene.wait_state("succeeded", "first")
    for n in range(10):
        pause(0.15)  # it has gone to rest
        scene.put("noop", key=f"at {n}")
        scene.wait_state("succeeded", f"at {n}")

    found = delays(scene)[1:]

    assert statistics.median(found) < 0.1, found


@pytest.mark.spec("W2")
def test_an_idle_worker_polls_no_oftener_than_twice_in_its_interval(scene: Scene) -> None:
    """Row 16, counted by the server: each pause lies between half the interval and the whole."""
    with scene.database.connect() as conn:
        name = conn.execute("SELECT current_database()").fetchone()
        assert name is not None
        conn.execute(f"ALTER DATABASE \"{name[0]}\" SET track_functions = 'all'".encode())
    scene.worker(poll_interval=0.5, notify=False).wait_children()
    calls = "SELECT coalesce(max(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'claim_v1'"
    pause(1.5)  # what was counted so far is written

    before, began = scene.value(calls), datetime.now(UTC)
    pause(6)
    polls, took = scene.value(calls) - before, (datetime.now(UTC) - began).total_seconds()

    assert 0.6 * took / 0.5 <= polls <= took / 0.25 + 5, (polls, took)


@pytest.mark.spec("W1")
def test_slots_are_a_queues_own(scene: Scene) -> None:
    """Row 18: two queues with a slot each run two jobs at once, and never two of one queue."""
    for queue in ("default", "mail"):
        put_many(scene, 4, f"'sleep', '{{\"seconds\": 0.3}}', '{queue}:' || n, p_queue => '{queue}'")
    names = [f"{queue}:{n}" for queue in ("default", "mail") for n in range(1, 5)]

    scene.worker(queues={"default": 1, "mail": 1}, slots=1)

    scene.wait_state("succeeded", *names)
    assert max(_beside(scene)) == 2
    for queue in ("default", "mail"):
        assert max(_beside(scene, queue)) == 1


def _beside(scene: Scene, prefix: str = "") -> list[int]:
    """How many bodies ran at each moment at which one began or ended."""
    moments = sorted(
        (event["at"], 1 if event["what"] == "begin" else -1)
        for event in scene.events()
        if event["job"].startswith(prefix)
    )
    running, found = 0, []
    for _, step in moments:
        running += step
        found.append(running)
    return found


@pytest.mark.spec("C1", "C3")
def test_workers_that_want_the_same_jobs_run_each_once(scene: Scene) -> None:
    """Row 6: three processes of two workers, 600 jobs, no undisturbed job has more than its one run."""
    for worker in (scene.worker(slots=4, processes=2), scene.worker(slots=4)):
        worker.wait_children()

    put_many(scene, 600, "'sleep', '{\"seconds\": 0.02}', 'n:' || n")

    _wait_all(scene, 600)
    begun = scene.all("begin")
    assert len(begun) == len({event["job"] for event in begun}) == 600
    assert len({event["pid"] for event in begun}) > 1
    assert scene.rows("SELECT DISTINCT run_count, attempts FROM fencepost.outcome") == [(1, 1)]


@pytest.mark.slow
@pytest.mark.spec("C2")
def test_10_000_jobs_start_in_the_promised_order(scene: Scene) -> None:
    """Higher priority, then earlier run_at, then the order of the enqueue; one slot shows it body by body."""
    put_many(
        scene,
        10_000,
        "'noop', '{}', 'n:' || n, p_priority => (n * 7919) % 5 - 2,"
        " p_run_at => now() - ((n * 104729) % 40) * interval '1 min'",
    )
    promised = scene.rows("SELECT job_id FROM fencepost.job ORDER BY priority DESC, run_at, id")
    assert len(promised) == 10_000

    scene.worker(slots=1)

    _wait_all(scene, 10_000)
    assert [event["job"] for event in scene.all("begin")] == [job_id for (job_id,) in promised]


@pytest.mark.spec("C2", "Q6")
def test_a_job_waits_for_its_time_and_then_goes_by_its_priority(scene: Scene) -> None:
    """None starts early; those that fall due while a body holds the slot start by priority, not by arrival."""
    scene.worker(slots=1)
    scene.put("sleep", key="holder", seconds=2)
    scene.wait("begin", "holder")
    put_many(scene, 9, "'noop', '{}', 'n:' || n, p_priority => n / 3, p_delay_s => 0.2 + n * 0.1")
    due = dict(scene.rows("SELECT job_id, run_at FROM fencepost.job"))

    _wait_all(scene, 10)
    begun = [event for event in scene.all("begin") if event["job"] != "holder"]
    assert [event["job"] for event in begun] == [
        *("n:9", "n:6", "n:7", "n:8", "n:3", "n:4", "n:5", "n:1", "n:2"),
    ]
    for event in begun:
        assert datetime.fromtimestamp(event["at"], UTC) >= due[event["job"]]


def _wait_all(scene: Scene, count: int) -> None:
    def over() -> bool:
        scene.check()
        return bool(scene.value("SELECT count(*) FROM fencepost.outcome WHERE state = 'succeeded'") == count)

    eventually(over, within=2 * SLOW)
