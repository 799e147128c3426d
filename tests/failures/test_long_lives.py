"""Workers that live long and carry much: nothing piles up, no slot goes missing, and what jobs share is what is written."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from failures.trouble import ours
from waiting import eventually
from worker.scene import Scene

STORM = "failures.apps.storm_app:app"
PROCESSES = "failures.apps.processes_app:app"


def put_many(scene: Scene, task: str, prefix: str, count: int, arguments: str) -> None:
    """So many jobs in one statement; ``arguments`` is SQL over the number n."""
    scene.rows(
        f"SELECT count(fencepost.enqueue(%s, {arguments}, %s || ':' || n)) FROM generate_series(1, %s) n",
        task,
        prefix,
        count,
    )


def unfinished(scene: Scene) -> int:
    """By the narrow tables: the view would read every job that there ever was."""
    return int(
        scene.value(
            "SELECT (SELECT count(*) FROM fencepost.ready) + (SELECT count(*) FROM fencepost.delayed)"
            " + (SELECT count(*) FROM fencepost.running)"
        )
    )


def wait_all(scene: Scene, within: float) -> None:
    def done() -> bool:
        scene.check()
        return unfinished(scene) == 0

    eventually(done, within=within, every=0.1)


def ends(scene: Scene, prefix: str) -> dict[tuple[str, str | None], int]:
    """How many jobs of this prefix are in which state, with which code."""
    rows = scene.rows(
        "SELECT state, last_error_code, count(*) FROM fencepost.jobs WHERE job_id LIKE %s GROUP BY 1, 2", f"{prefix}:%"
    )
    return {(state, code): count for state, code, count in rows}


def fds(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(pid)


# ------------------------------------------------------------------------------------------------------------------ size


@pytest.mark.slow
@pytest.mark.spec("W1", "C4", "C10")
def test_1000_slots_in_one_process(scene: Scene) -> None:
    """3,000 async jobs: each runs once, and no beat waits for them. HBT-3."""
    put_many(scene, "crowd", "crowd", 3000, "'{\"seconds\": 3}'::jsonb")
    worker = scene.worker(app=STORM, slots=1000, heartbeat_interval=0.5, heartbeat_ttl=6)
    (child,) = worker.wait_children()
    eventually(lambda: scene.running() >= 1000, within=30)

    wait_all(scene, within=60)

    assert ends(scene, "crowd") == {("succeeded", None): 3000}
    assert scene.rows("SELECT DISTINCT run_count FROM fencepost.outcome") == [(1,)]
    (gap,) = scene.rows("SELECT max(max_gap_s) FROM fencepost.outcome")[0]
    assert gap < 3
    assert worker.children() == [child]


# ----------------------------------------------------------------------------------------------------------------- leaks


def _measured(scene: Scene, child: int, name: str) -> dict[str, Any]:
    scene.put("measures", key=name)
    (told,) = scene.wait("measured", name)
    wait_all(scene, within=30)
    return {"fds": fds(child), "rss": rss_mb(child), "threads": told["threads"], "tasks": told["tasks"]} | {
        "objects": told["objects"]
    }


def _life(scene: Scene, prefix: str, count: int, within: float) -> None:
    """Half of them fail, one in a hundred runs into its time limit, a few have a process of their own."""
    how = "jsonb_build_object('how', CASE WHEN n %% 2 = 0 THEN 'fails' ELSE 'good' END)"
    limited, own = max(count // 200, 4), max(count // 100, 4)
    half = (count - 2 * limited - own) // 2
    put_many(scene, "async_small", f"{prefix}:a", half, how)
    put_many(scene, "thread_small", f"{prefix}:t", half, how)
    put_many(scene, "process_small", f"{prefix}:p", own, how)
    put_many(scene, "async_late", f"{prefix}:la", limited, "'{}'::jsonb")
    put_many(scene, "thread_late", f"{prefix}:lt", limited, "'{}'::jsonb")
    wait_all(scene, within)


def _everybody_is_connected(scene: Scene) -> bool:
    """The supervisor and its leader have every connection that they keep; each opens when it is first needed."""
    with scene.database.connect() as conn:
        return {"fencepost supervisor", "fencepost leader", "fencepost leader maintenance"} <= set(ours(conn).values())


def _lives(scene: Scene, first: int, more: int, within: float) -> None:
    worker = scene.worker(app=STORM, slots=8, heartbeat_ttl=60)  # how fast the machine is does not matter here
    (child,) = worker.wait_children()
    _life(scene, "first", first, within)
    before = _measured(scene, child, "before")
    eventually(lambda: _everybody_is_connected(scene), within=60)
    above = fds(worker.pid)

    _life(scene, "more", more, within)

    after = _measured(scene, child, "after")
    print(f"{before}\n{after}")
    assert worker.children() == [child]
    assert after["fds"] <= before["fds"]
    assert after["threads"] <= before["threads"]
    assert after["tasks"] <= before["tasks"]
    assert after["objects"] < before["objects"] + 2000
    assert after["rss"] < before["rss"] + 5
    assert fds(worker.pid) <= above
    found = ends(scene, "more")
    assert set(found) == {("succeeded", None), ("failed", "UNKNOWN"), ("failed", "TIMEOUT")}
    worker.send(signal.SIGTERM)
    assert worker.ends() == 0


@pytest.mark.slow
@pytest.mark.spec("W1", "W7")
def test_a_worker_process_does_not_grow(scene: Scene) -> None:
    """ORM-5, ORM-6: descriptors, threads, tasks, objects and memory are the same after ten times as many jobs."""
    _lives(scene, 1000, 9000, within=60)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_a_worker_process_does_not_grow_in_a_million_jobs(scene: Scene) -> None:
    _lives(scene, 20_000, 1_000_000, within=6000)


def _kills(scene: Scene, count: int) -> None:
    """Each by SIGKILL under a running body, or by a SIGTERM that drains it, in turn."""
    worker = scene.worker(app=STORM, processes=4, slots=1)
    worker.wait_children(4)
    eventually(lambda: _everybody_is_connected(scene), within=60)
    before = fds(worker.pid)
    for n in range(count):
        children = worker.wait_children(4)
        if n % 4 == 0:
            scene.put("async_together", key=f"victim:{n}")
            (begun,) = scene.wait("begin", f"victim:{n}")
            os.kill(begun["pid"], signal.SIGKILL)
            scene.rows("SELECT fencepost.cancel_v1(%s)", f"victim:{n}")
        else:
            os.kill(random.choice(children), signal.SIGTERM)
        eventually(lambda children=children: set(worker.children()) - set(children), within=20)  # type: ignore[misc]

    worker.wait_children(4)
    eventually(lambda: fds(worker.pid) <= before, within=10)
    assert len(list(Path(f"/proc/{worker.pid}/task").iterdir())) <= 8


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.spec("W11")
def test_a_supervisor_keeps_nothing_of_its_dead(scene: Scene) -> None:
    """SIG-6: 30 of its worker processes end, killed or drained; descriptors are as many as before."""
    _kills(scene, 30)


# ----------------------------------------------------------------------------------------------------------- their limits


@pytest.mark.slow
@pytest.mark.spec("W7", "C1")
@pytest.mark.parametrize("executor", ["async", "thread"])
def test_bodies_that_end_exactly_at_their_limit_cost_no_slot(scene: Scene, executor: str) -> None:
    """TMO-3: 300 of them, from 10 ms before the limit to 30 ms after. Each ends once, in time or late; then all slots still work beside each other."""
    slots = 8
    put_many(scene, f"{executor}_exact", "exact", 300, "jsonb_build_object('seconds', 0.190 + 0.040 * random())")
    worker = scene.worker(app=STORM, slots=slots)
    (child,) = worker.wait_children()

    wait_all(scene, within=60)

    found = ends(scene, "exact")
    print(found)
    assert set(found) <= {("succeeded", None), ("succeeded", "TIMEOUT")}
    assert sum(found.values()) == 300
    assert 0 < late(scene) < 300
    names = scene.put(f"{executor}_together", count=slots)
    scene.wait("begin", count=slots)
    (scene.folder / "calm").touch()
    scene.wait_state("succeeded", *names)
    assert worker.children() == [child]
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


def late(scene: Scene) -> int:
    """How many runs were over their time."""
    return int(scene.value("SELECT count(*) FROM fencepost.attempt WHERE error_code = 'TIMEOUT'"))


@pytest.mark.slow
@pytest.mark.spec("W7")
def test_200_bodies_that_never_return_leave_running(scene: Scene) -> None:
    """STK-9: of every kind, with a timeout of 1 s; in their second run they end."""
    kinds = {"async_endless": 90, "thread_endless": 60, "deaf_endless": 40, "process_endless": 10}
    for task, count in kinds.items():
        put_many(scene, task, task, count, "'{}'::jsonb")

    scene.worker(app=STORM, processes=2, slots=50)

    wait_all(scene, within=75)
    for task, count in kinds.items():
        found = ends(scene, task)
        assert sum(found.values()) == count
        assert {state for state, _ in found} == {"succeeded"}, task
    assert late(scene) >= 200
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


# ------------------------------------------------------------------------------------------------------- what jobs share


@pytest.mark.spec("W1")
@pytest.mark.parametrize("executor", ["async", "thread", "process"])
def test_what_a_body_leaves_in_its_process(scene: Scene, executor: str) -> None:
    """ORM-2, docs/operations.md: environment, folder and thread-locals are the process's or thread's; context is clean."""
    scene.worker(app=PROCESSES, slots=1)
    scene.put(f"{executor}_leaves", key="first", how="moves")
    scene.wait_state("succeeded", "first")
    scene.put(f"{executor}_leaves", key="second")
    scene.wait_state("succeeded", "second")

    assert scene.job("first")["result"] == {"environ": None, "cwd": "apps", "thread": None, "context": "clean"}
    assert scene.job("second")["result"] == {"environ": "first", "cwd": "tmp", "thread": "first", "context": "clean"}
