"""Everything through PgBouncer in transaction mode: found out by itself, said once, polling only (SPEC; NTF, DBL-6, DBO-5).

Nothing relies on the session: neither prepared statements, nor settings, nor locks, nor LISTEN.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import bouncer
from bouncer import AnyPooler, PgBouncer, transaction_pooler
from failures.trouble import set_for_all
from fencepost import Answer, App, Enqueued
from waiting import eventually, pause
from worker.scene import Scene

real_one = pytest.mark.skipif(bouncer.FOUND is None and not bouncer.needed(), reason="no pgbouncer is installed")


@pytest.fixture
def pool(scene: Scene) -> Iterator[AnyPooler]:
    with transaction_pooler(scene.database.dsn, server_connections=6) as made:
        yield made


@pytest.mark.spec("C1", "W4", "W10")
def test_workers_behind_a_pooler_run_each_job_once_and_say_so_once(scene: Scene, pool: AnyPooler) -> None:
    """DBL-6, NTF-7, NTF-8: 3 workers share 6 server connections; retries, crashes, cancels and a stop as well."""
    names = scene.put("noop", count=600)
    names += scene.put("sleep", key="long", seconds=2) + scene.put("thread_sleep", key="thread", seconds=0.2)
    names += scene.put("process_sleep", key="process", seconds=0.2)
    scene.put("killer")
    workers = [scene.worker(dsn=pool.dsn, slots=8) for _ in range(3)]
    for worker in workers:
        worker.wait_children()

    scene.wait_state("succeeded", *names)
    scene.wait_state("failed", "killer")
    runs = dict(scene.rows("SELECT job_id, run_count FROM fencepost.jobs"))
    begun = Counter(event["job"] for event in scene.all("begin"))
    assert all(begun[name] <= runs[name] for name in names)  # what the killer took down with it may have begun twice
    for worker in workers:
        log = worker.logged()
        assert "polling only" in log
        assert log.count("polling only") <= 2 + log.count("died")  # by each worker process, once
        for code in ("42P05", "26000", "08P01"):
            assert code not in log
    assert scene.rows("SELECT * FROM fencepost.fsck") == []

    scene.put("sleep", key="cancelled", seconds=60)
    scene.wait("begin", "cancelled")
    scene.rows("SELECT fencepost.cancel_v1('cancelled', 'somebody', 'enough')")
    scene.wait_state("cancelled", "cancelled")
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert [worker.ends() for worker in workers] == [0, 0, 0]


@pytest.mark.spec("Q1", "Q2")
def test_clients_behind_a_pooler(scene: Scene, pool: AnyPooler) -> None:
    """NTF-8: 20 threads enqueue the same ids, each statement more than ten times, in transactions and without."""
    app = App(pool.dsn, name="pooled")

    @app.task("noop")
    def noop() -> None:
        """Run by nobody here."""

    def enqueue(number: int) -> list[Enqueued]:
        answers = [noop.using(job_id=f"shared {n}").enqueue() for n in range(15)]
        with psycopg.connect(pool.dsn, prepare_threshold=None) as conn, conn.transaction():
            answers += [noop.using(job_id=f"{number} {n}", tx=conn).enqueue() for n in range(15)]
        return answers

    with ThreadPoolExecutor(20) as threads:
        found = Counter(answer.status for answers in threads.map(enqueue, range(20)) for answer in answers)
    app.close()

    assert found == {Answer.CREATED: 15 + 20 * 15, Answer.EXISTS: 19 * 15}
    assert scene.value("SELECT count(*) FROM fencepost.job") == 315


@pytest.mark.spec("W4", "C12")
def test_a_serializable_database_behind_a_pooler(scene: Scene) -> None:
    """Where a session setting cannot be relied on, each statement says its own isolation."""
    with scene.database.connect() as conn:
        set_for_all(conn, default_transaction_isolation="serializable", DateStyle="SQL, DMY", statement_timeout="5s")
    with transaction_pooler(scene.database.dsn) as pool:
        names = scene.put("noop", count=60)
        workers = [scene.worker(dsn=pool.dsn, slots=4) for _ in range(2)]
        for worker in workers:
            worker.wait_children()
        scene.wait_state("succeeded", *names)
        assert {scene.job(name)["run_count"] for name in names} == {1}


@real_one
@pytest.mark.spec("W4")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["safe", "kill"])
def test_a_pooler_that_restarts_costs_nothing(scene: Scene, how: signal.Signals) -> None:
    with transaction_pooler(scene.database.dsn) as pool:
        assert isinstance(pool, PgBouncer)
        worker = scene.worker(dsn=pool.dsn, slots=2, heartbeat_ttl=15)
        children = worker.wait_children()
        scene.put("sleep", seconds=3)
        scene.wait("begin", "sleep")

        pool.stop(how)
        pause(1.0)
        pool.start()

        scene.wait_state("succeeded", "sleep")
        assert scene.job("sleep")["run_count"] == 1
        scene.put("noop")
        scene.wait_state("succeeded", "noop")
        assert worker.children() == children


@real_one
@pytest.mark.spec("W4")
def test_a_killed_worker_behind_a_pooler_leaves_no_lock(scene: Scene) -> None:
    """NTF-9: kill -9 in the middle of its work; what it held is free within the lease, and a migration's lock is had."""
    with transaction_pooler(scene.database.dsn) as pool:
        worker = scene.worker(dsn=pool.dsn, slots=8)
        worker.wait_children()
        scene.put("noop", count=300)
        scene.wait("begin", count=20)
        worker.may_end = True
        worker.kill_all()
        with scene.database.connect() as conn:
            conn.execute("SET lock_timeout = '2s'")
            eventually(lambda: _can_lock(conn), within=20)


def _can_lock(conn: psycopg.Connection[Any]) -> bool:
    try:
        with conn.transaction():
            conn.execute("LOCK TABLE fencepost.running IN ACCESS EXCLUSIVE MODE")
    except psycopg.errors.LockNotAvailable:
        return False
    return True
