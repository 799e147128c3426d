"""The primary dies and its streaming standby is promoted; workers have both in their DSN (SPEC W4, C11)."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.sql.catalog import Catalog
from fencepost.store import jobs
from servers import Database, Server, standby_of
from store.hands import wire_driver
from waiting import eventually
from worker.scene import Scene


def both(first: Server, second: Server) -> str:
    one, two = conninfo_to_dict(first.dsn), conninfo_to_dict(second.dsn)
    return make_conninfo(
        "",
        host=f"{one['host']},{two['host']}",
        port=f"{one['port']},{two['port']}",
        user=one["user"],
        dbname=one["dbname"],
        target_session_attrs="read-write",
    )


def has_caught_up(primary: Server) -> bool:
    with primary.connect() as conn:
        rows: list[Any] = conn.execute(
            "SELECT pg_current_wal_lsn() = replay_lsn AND application_name <> '' FROM pg_stat_replication"
        ).fetchall()
    return bool(rows) and all(row[0] for row in rows)


@pytest.mark.spec("W4", "W6", "C11")
@pytest.mark.parametrize("how", ["immediate", "kill"])
def test_a_promoted_standby_takes_over_and_no_lease_is_lost(own_server: Server, how: str) -> None:
    """The job that ran goes on and is written once on the new primary; later ones are claimed there."""
    with standby_of(own_server) as standby:
        dsn = both(own_server, standby)
        scene = Scene(Database(dsn, Catalog(), own_server))
        try:
            worker = scene.worker(slots=4, heartbeat_ttl=20)
            children = worker.wait_children()
            scene.put("sleep", seconds=5)
            names = scene.put("noop", key="before", count=50)
            scene.wait("begin", "sleep")
            scene.wait_state("succeeded", *names)
            eventually(lambda: has_caught_up(own_server), within=20)

            if how == "kill":
                own_server.kill()
            else:
                own_server.stop("immediate")
            with standby.connect() as conn:
                assert conn.execute("SELECT pg_promote(wait_seconds => 30)").fetchone() == (True,)

            scene.wait_state("succeeded", "sleep")
            assert scene.job("sleep")["run_count"] == 1
            assert len(scene.all("begin", "sleep")) == 1
            names = scene.put("noop", key="after", count=20)
            scene.wait_state("succeeded", *names)
            assert worker.children() == children
            assert scene.rows("SELECT * FROM fencepost.fsck") == []
        finally:
            scene.close()


@pytest.mark.spec("W4")
def test_a_standby_alone_is_waited_for_until_it_is_promoted(own_server: Server) -> None:
    """25006: a worker that finds only a read-only server claims nothing and waits; promoted, it works."""
    with standby_of(own_server) as standby:
        scene = Scene(Database(both(own_server, standby), Catalog(), own_server))
        try:
            worker = scene.worker(heartbeat_ttl=30)
            children = worker.wait_children()
            scene.put("sleep", seconds=2)
            scene.wait("begin", "sleep")
            eventually(lambda: has_caught_up(own_server), within=20)
            own_server.stop("fast")
            scene.wait("end", "sleep")
            with standby.connect() as conn:
                conn.execute("SELECT pg_promote(wait_seconds => 30)")

            scene.wait_state("succeeded", "sleep")
            assert scene.job("sleep")["run_count"] == 1
            assert worker.children() == children
        finally:
            scene.close()


def test_a_standby_is_not_asked_what_is_lost(own_server: Server) -> None:
    """It may not have heard of the newest claims: nobody's body ends for that."""
    with standby_of(own_server) as standby, wire_driver(standby.dsn) as wire:
        assert wire.run(jobs.mine(Catalog(), 7)) is None


def remember(scene: Scene) -> None:
    """What lies in the queues, as a standby knows it."""
    with scene.database.connect() as conn:
        conn.execute("CREATE TABLE public.before AS TABLE fencepost.ready")


def forget_the_claim(scene: Scene, *, sessions: bool) -> None:
    """As a standby that had not heard of it: the job lies in its queue as before. ``sessions``: the worker's end with it."""
    with scene.database.connect() as conn, conn.transaction():
        conn.execute("DELETE FROM fencepost.running")
        conn.execute("INSERT INTO fencepost.ready SELECT * FROM public.before")
        if sessions:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


@pytest.mark.spec("C3", "C4", "L1")
@pytest.mark.parametrize("sessions", [True, False], ids=["with its sessions", "behind a pooler"])
def test_a_claim_that_a_failover_forgot_gives_no_second_body_the_same_fence(scene: Scene, sessions: bool) -> None:
    """Found by the design model: the same worker process claims the job again and gets the same run_count, and the token
    is its own. The first body is told that its lease is lost; the repeated run goes back, unspent, and another one is made.
    """
    scene.put("sleep", seconds=60, then=0)
    remember(scene)
    worker = scene.worker(slots=2)
    worker.wait_children()
    scene.wait("begin", "sleep")

    forget_the_claim(scene, sessions=sessions)

    scene.wait_state("succeeded", "sleep")
    assert [event["run"] for event in scene.all("begin", "sleep")] == [1, 2]
    (broken,) = scene.all("broken", "sleep")
    assert broken["run"] == 1
    job = scene.job("sleep")
    assert (job["run_count"], job["attempts"], job["crashes"]) == (2, 1, 0)
    assert "goes back" in worker.logged()
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


@pytest.mark.spec("C3", "L1")
def test_an_id_that_a_failover_gave_to_another_job_keeps_no_outcome_of_the_first(scene: Scene) -> None:
    """The sequence fell back with the rows: another job has the id, and the same worker process claims it as run 1."""
    scene.put("sleep", key="forgotten", seconds=60, then=0)
    remember(scene)
    worker = scene.worker(slots=2)
    worker.wait_children()
    scene.wait("begin", "forgotten")

    with scene.database.connect() as conn, conn.transaction():
        conn.execute("DELETE FROM fencepost.running")
        conn.execute("UPDATE fencepost.job SET job_id = 'other', task = 'noop', payload = '{}'")
        conn.execute("INSERT INTO fencepost.ready SELECT * FROM public.before")

    scene.wait_state("succeeded", "other")
    (broken,) = scene.wait("broken", "forgotten")
    (begun,) = scene.all("begin", "other")
    assert (broken["run"], begun["run"]) == (1, 2)


END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'fencepost %'"
)


@pytest.mark.spec("W4", "T4")
@pytest.mark.parametrize("trouble", [True, False], ids=["with trouble", "unnoticed"])
def test_a_worker_that_the_database_has_forgotten_registers_again(scene: Scene, trouble: bool) -> None:
    """Found by a long torture: a forgetful failover took the rows of living processes and of their tasks; `status` did not
    show them any more, and a parked job of a task that they know would have waited for ever. A machine that slept for
    hours is forgotten by the leader, and its sessions may live.
    """
    worker = scene.worker(heartbeat_ttl=5)
    children = worker.wait_children()
    with scene.database.connect() as conn, conn.transaction():
        conn.execute("DELETE FROM fencepost.worker")
        conn.execute("DELETE FROM fencepost.task")
        if trouble:
            conn.execute(END_SESSIONS)

    (told,) = eventually(lambda: scene.rows("SELECT pid, tasks ? 'noop', queues ? 'default' FROM fencepost.worker"))

    assert told == (children[0], True, True)
    assert scene.rows("SELECT name FROM fencepost.task WHERE name = 'noop'") == [("noop",)]
    assert worker.children() == children


@pytest.mark.spec("Q10", "W4")
def test_an_old_release_that_is_still_known_takes_back_nothing_after_trouble(scene: Scene) -> None:
    """The new release has published its tasks while the old one still works; then the old one's connections break."""
    worker = scene.worker()
    worker.wait_children()
    with scene.database.connect() as conn:
        conn.execute("UPDATE fencepost.task SET max_attempts = 17 WHERE name = 'noop'")
        conn.execute(END_SESSIONS)
    scene.put("noop", key="after")
    scene.wait_state("succeeded", "after")

    eventually(lambda: "the database answers again" in worker.logged())
    assert scene.rows("SELECT max_attempts FROM fencepost.task WHERE name = 'noop'") == [(17,)]
