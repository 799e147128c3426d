"""The database is there and makes trouble: it ends sessions, refuses statements, fills up, forbids to write.

A worker lives through all of it: bodies run once per run, outcomes are written when it is over, nothing is claimed
while beats fail, and an episode is one line of the log (SPEC W4, W6, C11).
"""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
import pytest

from commits import commits_wait
from failures.byhand import assert_readable
from failures.trouble import ours, refuse, refused, server_setting, set_for_all
from waiting import eventually, pause
from worker.scene import Scene, Worker

TIMES = 3
TRANSIENT = {
    "40001": "serialization failure",
    "40P01": "deadlock",
    "57P01": "admin shutdown",
    "57014": "cancelled by a statement timeout of the DBA's",
    "08006": "connection failure",
    "53100": "disk full",
    "53200": "out of memory",
    "53300": "too many connections",
    "25006": "read-only",
    "55P03": "lock timeout",
    "58030": "an error of the disk",
}


def assert_each_run_once(scene: Scene, *job_ids: str) -> None:
    """Succeeded in the first run, with one body."""
    for job_id in job_ids:
        assert scene.job(job_id)["run_count"] == 1, job_id
        assert [event["run"] for event in scene.all("begin", job_id)] == [1], job_id


def _is_over(conn: psycopg.Connection[Any], table: str) -> bool:
    return refused(conn, table) > TIMES


def _is_gone(conn: psycopg.Connection[Any], pid: int) -> bool:
    return pid not in ours(conn)


def assert_goes_on(scene: Scene, worker: Worker, children: list[int]) -> None:
    scene.put("noop", key="afterwards")
    scene.wait_state("succeeded", "afterwards")
    assert worker.children() == children


@pytest.mark.spec("W4", "W6", "C12")
@pytest.mark.parametrize("code", TRANSIENT, ids=lambda code: TRANSIENT[code].replace(" ", "-"))
def test_an_error_that_passes_costs_no_run(scene: Scene, code: str) -> None:
    """Each table refuses its first writes: claims, beats, outcomes, retries and the leader's. Bodies run once.

    DBL-9; source text 002, rows 23 and 29.
    """
    names = scene.put("noop", key="before", count=20)
    names += scene.put("sleep", key="long", seconds=1.2) + scene.put("thread_sleep", key="thread", seconds=0.3)
    with scene.database.connect() as conn:
        refuse(conn, code, times=TIMES)

        worker = scene.worker(slots=8)
        children = worker.wait_children()

        scene.wait_state("succeeded", *names)
        assert_each_run_once(scene, *names)
        for table in ("ready", "running", "outcome", "worker", "leader"):
            eventually(partial(_is_over, conn, table))
    assert_goes_on(scene, worker, children)
    assert scene.rows("SELECT * FROM fencepost.quarantine") == []
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


@pytest.mark.spec("W4", "W6")
def test_a_retry_is_written_when_the_trouble_is_over(scene: Scene) -> None:
    """The error of a body is not lost because the table of past runs refuses it for a while."""
    scene.put("raises")
    with scene.database.connect() as conn:
        refuse(conn, "40001", times=3, tables=["attempt", "delayed", "carry"])

        scene.worker(app="failures.apps.trouble_app:app")

        scene.wait_state("succeeded", "raises")
    assert scene.runs("raises") == [("retry", True, "UNKNOWN")]
    assert [event["run"] for event in scene.all("begin", "raises")] == [1, 2]


@pytest.mark.spec("W4")
def test_each_of_our_sessions_may_be_ended_at_any_time(scene: Scene) -> None:
    """Again and again, one after the other, under load: all come back, and no more of them than before. NTF-11, DBO-1."""
    worker = scene.worker(slots=4)
    children = worker.wait_children()
    names = scene.put("sleep", key="long", seconds=4)
    with scene.database.connect() as conn:
        before = sorted(
            f"fencepost {who}" for who in ("leader", "leader maintenance", "listen", "supervisor", "worker")
        )
        eventually(lambda: sorted(ours(conn).values()) == before, within=30)
        for turn in range(6):
            names += scene.put("noop", key=f"turn {turn}", count=10)
            for pid in ours(conn):
                conn.execute("SELECT pg_terminate_backend(%s)", [pid])
                pause(0.02)

        scene.wait_state("succeeded", *names)
        eventually(lambda: sorted(ours(conn).values()) == before, within=30)
    assert_each_run_once(scene, "long")
    assert_goes_on(scene, worker, children)


@pytest.mark.spec("W10")
def test_a_lost_listener_is_replaced_and_never_doubled(scene: Scene) -> None:
    """NTF-4, NTF-11: ended 20 times, there is one again; a job then starts by notification, not at the next poll."""
    worker = scene.worker(poll_interval=600)
    worker.wait_children()
    with scene.database.connect() as conn:

        def listeners() -> list[int]:
            rows = conn.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'fencepost listen' AND query ILIKE 'listen%' AND state = 'idle'"
            ).fetchall()
            return [pid for (pid,) in rows]

        for _ in range(5):
            (one,) = eventually(listeners, within=30)
            conn.execute("SELECT pg_terminate_backend(%s)", [one])
            eventually(partial(_is_gone, conn, one))
        eventually(listeners, within=30)
        assert list(ours(conn).values()).count("fencepost listen") == 1

    pause(0.3)
    (put,) = scene.rows("SELECT extract(epoch FROM clock_timestamp())")
    scene.put("noop")
    (begun,) = scene.wait("begin", "noop")
    assert begun["at"] - float(put[0]) < 1.0


@pytest.mark.spec("W4", "W6", "C1")
def test_a_claim_that_comes_through_after_it_was_given_up_goes_back(own_scene: Scene) -> None:
    """Its COMMIT waits for a standby while the worker has long reconnected and asked what it holds: not yet this job."""
    worker = own_scene.worker(heartbeat_ttl=3, heartbeat_interval=0.3)
    worker.wait_children()
    with commits_wait(own_scene.database.dsn) as conn:
        conn.execute("SELECT fencepost.enqueue('sleep', '{\"seconds\": 0}', 'late', p_queue => 'default')")
        held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%claim_v1%'"
        eventually(lambda: own_scene.rows(held)[0][0])
        eventually(lambda: own_scene.rows(held.replace("claim_v1", "heartbeat_v1"))[0][0])
        pause(1.5)

    own_scene.wait_state("succeeded", "late")

    assert own_scene.job("late")["attempts"] == 1


@pytest.mark.spec("W4", "W5")
def test_read_only_for_a_while(own_scene: Scene) -> None:
    """As after a failover under a DSN with several hosts: reconnect, wait, go on; shorter than the ttl nothing is lost."""
    worker = own_scene.worker(heartbeat_ttl=20)
    children = worker.wait_children()
    own_scene.put("sleep", seconds=4)
    own_scene.wait("begin", "sleep")
    with own_scene.database.connect() as conn, server_setting(conn, "default_transaction_read_only", "on"):
        pause(2.5)
    own_scene.wait_state("succeeded", "sleep")
    assert_each_run_once(own_scene, "sleep")
    assert_goes_on(own_scene, worker, children)
    assert worker.logged().count("cannot be reached") <= 6


@pytest.mark.spec("W4")
def test_no_connection_is_to_be_had(own_scene: Scene) -> None:
    """53300: all of max_connections are taken and one of ours is ended; it comes back when there is room. DBO-4."""
    worker = own_scene.worker(heartbeat_ttl=20)
    children = worker.wait_children()
    own_scene.put("sleep", seconds=3)
    own_scene.wait("begin", "sleep")
    hoard: list[psycopg.Connection[object]] = []
    try:
        with own_scene.database.connect() as conn:
            for pid in ours(conn):
                conn.execute("SELECT pg_terminate_backend(%s)", [pid])
                while True:  # take its place before it is back
                    try:
                        hoard.append(own_scene.database.connect())
                    except psycopg.OperationalError:
                        break
            pause(1.5)
    finally:
        for one in hoard:
            one.close()
        eventually(lambda: has_room(own_scene), within=30)  # their server processes end a moment later

    own_scene.wait_state("succeeded", "sleep")
    assert_each_run_once(own_scene, "sleep")
    assert_goes_on(own_scene, worker, children)


def has_room(scene: Scene) -> bool:
    with suppress(psycopg.OperationalError), scene.database.connect():
        return True
    return False


@pytest.mark.spec("W4", "C12")
def test_the_dbas_defaults_are_not_ours(scene: Scene) -> None:
    """SERIALIZABLE, quick timeouts for statements, locks and idle transactions, a time zone, read-ahead: all the same.

    DBL-9, DBO-2, TMZ-1.
    """
    with scene.database.connect() as conn:
        set_for_all(
            conn,
            default_transaction_isolation="serializable",
            idle_in_transaction_session_timeout="1s",
            statement_timeout="5s",
            lock_timeout="1s",
            TimeZone="Asia/Kolkata",
            DateStyle="German, DMY",
            IntervalStyle="sql_standard",
            standard_conforming_strings="off",
            search_path="pg_catalog",
            default_transaction_deferrable="on",
            extra_float_digits="-15",
            bytea_output="escape",
        )
    workers = [scene.worker(slots=4) for _ in range(2)]
    for worker in workers:
        worker.wait_children()
    names = scene.put("noop", count=200) + scene.put("sleep", key="longer than idle", seconds=2.5)
    scene.put("killer")
    scene.wait("begin", "longer than idle")
    with scene.database.connect() as conn:
        for _ in range(10):
            assert conn.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND state LIKE 'idle in transaction%' AND clock_timestamp() - state_change > interval '0.5 s'"
            ).fetchone() == (0,)
            pause(0.05)

    scene.wait_state("succeeded", *names)
    scene.wait_state("failed", "killer")
    assert_readable(scene, [names[0], "killer"])
    assert {scene.job(name)["run_count"] for name in names if name != "longer than idle"} <= {1, 2, 3}
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


@pytest.mark.spec("W4", "W6")
def test_commits_that_wait_for_a_lost_standby(own_scene: Scene) -> None:
    """COMMIT hangs and has happened all the same: what is sent again finds itself there; the body runs once."""
    worker = own_scene.worker(heartbeat_ttl=20)
    children = worker.wait_children()
    own_scene.put("sleep", seconds=1)
    own_scene.wait("begin", "sleep")
    with commits_wait(own_scene.database.dsn):
        own_scene.wait("end", "sleep")
        pause(3.0)

    own_scene.wait_state("succeeded", "sleep")
    assert_each_run_once(own_scene, "sleep")
    assert_goes_on(own_scene, worker, children)


@pytest.mark.spec("W4", "W5")
def test_when_only_the_beats_fail_nothing_more_is_claimed_and_the_worker_gives_up_in_time(scene: Scene) -> None:
    """ZMB-3; source text 002, rows 24, 26 and 28: within its ttl the body is cancelled, and the exit code is 1."""
    worker = scene.worker(slots=2, leader=False)
    worker.wait_children()
    scene.put("sleep", seconds=60)
    scene.wait("begin", "sleep")
    worker.may_end = True
    with scene.database.connect() as conn:
        conn.execute(
            """
            CREATE FUNCTION public.no_beats() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'no beats' USING ERRCODE = '57014'; END $$;
            CREATE TRIGGER no_beats BEFORE UPDATE ON fencepost.running FOR EACH STATEMENT
              EXECUTE FUNCTION public.no_beats();
            CREATE TRIGGER no_beats BEFORE UPDATE ON fencepost.worker FOR EACH STATEMENT
              EXECUTE FUNCTION public.no_beats();
            """
        )
    pause(1.5)
    scene.put("noop")

    assert worker.ends() == 1
    assert scene.all("broken", "sleep")
    assert scene.all("begin", "noop") == [], worker.logged()
    assert "longer than heartbeat_ttl" in worker.logged()


@pytest.mark.spec("W3", "W4")
def test_a_stop_while_the_database_is_away(own_scene: Scene) -> None:
    """STK-8: back within the shutdown timeout, what ran is handed back unspent, and the exit code is 0."""
    worker = own_scene.worker(shutdown_timeout=12, heartbeat_ttl=30)
    worker.wait_children()
    own_scene.put("sleep", key="short", seconds=1.5)
    own_scene.wait("begin", "short")
    own_scene.database.server.stop("immediate")
    worker.send(signal.SIGTERM)
    own_scene.wait("end", "short")
    own_scene.database.server.start()

    assert worker.ends() == 0
    assert own_scene.state("short") == "succeeded"
    assert_each_run_once(own_scene, "short")


@pytest.mark.spec("W3", "W4", "C11")
def test_a_stop_while_the_database_stays_away(own_scene: Scene) -> None:
    """STK-8: the process is gone within its timeout and some seconds, with code 1; the lease brings the job back."""
    worker = own_scene.worker(shutdown_timeout=1, heartbeat_ttl=5)
    worker.wait_children()
    own_scene.put("sleep", seconds=60, then=0)
    own_scene.wait("begin", "sleep")
    own_scene.database.server.stop("immediate")
    worker.send(signal.SIGTERM)

    assert worker.ends(within=12) == 1
    own_scene.database.server.start()
    own_scene.worker()
    own_scene.wait_state("succeeded", "sleep")
    assert own_scene.job("sleep")["run_count"] == 2
