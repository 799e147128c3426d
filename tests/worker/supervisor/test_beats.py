"""What the clerk keeps, what it does not, and what children hear of it (SPEC C3-C5, W4, W5, W8; worker.md 3)."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fencepost.sql.catalog import Catalog
from servers import Database, Server
from waiting import always, eventually
from worker.supervisor.fleet import Fleet, FleetMaker, enqueue

STALE = "SELECT count(*) FROM fencepost.running WHERE clock_timestamp() > coalesce(heartbeat_at, claimed_at) + ttl_s * interval '1 s'"


def renewed(scene: Fleet) -> set[int]:
    return {id_ for event in scene.all("Beaten") for id_ in event["ids"]}


@pytest.mark.spec("C5", "W5")
def test_children_hear_which_leases_each_beat_renewed_and_when_it_was_sent(
    fleet: FleetMaker, database: Database
) -> None:
    """The local deadline runs from the moment before the statement, of that job only."""
    enqueue(database, 4)
    scene = fleet({"claim": 2, "start": 1}, processes=2, queues={"default": 2})
    first, second = scene.wait("holds", 2)

    eventually(lambda: renewed(scene) == {*first["ids"], *second["ids"]}, within=30)

    for event in scene.all("Beaten"):
        mine = first if event["pid"] == first["pid"] else second
        assert set(event["ids"]) <= set(mine["ids"])
    sent = [event["sent_ns"] for event in scene.all("Beaten") if event["pid"] == first["pid"]]
    assert sent == sorted(sent)


@pytest.mark.spec("C5")
def test_a_frozen_child_loses_its_leases_and_its_neighbour_does_not(fleet: FleetMaker, database: Database) -> None:
    """B7: beaten only while it shows life; gone after patience and ttl."""
    enqueue(database, 2)
    scene = fleet({"claim": 1, "start": 1}, processes=2)
    frozen, other = scene.wait("holds", 2)
    eventually(lambda: len(renewed(scene)) == 2, within=30)

    os.kill(frozen["pid"], signal.SIGSTOP)

    scene.until(STALE, 1)
    assert scene.value(STALE.replace("count(*)", "min(id)")) == frozen["ids"][0]
    assert "shows no life" in scene.logged()
    always(lambda: scene.value(STALE.replace("count(*)", f"count(*) FILTER (WHERE id = {other['ids'][0]})")) == 0, 1)


@pytest.mark.spec("C5")
def test_a_child_that_thaws_is_beaten_again(fleet: FleetMaker, database: Database) -> None:
    enqueue(database, 1)
    scene = fleet({"claim": 1, "start": 1})
    (frozen,) = scene.wait("holds")
    eventually(lambda: renewed(scene), within=30)
    os.kill(frozen["pid"], signal.SIGSTOP)
    scene.wait_log("shows no life")

    os.kill(frozen["pid"], signal.SIGCONT)

    scene.wait_log("shows life again")
    seen = len(scene.all("Beaten"))
    eventually(lambda: any(event["ids"] for event in scene.all("Beaten")[seen:]), within=30)


@pytest.mark.spec("C4")
def test_a_plain_lease_is_never_beaten(fleet: FleetMaker, database: Database) -> None:
    enqueue(database, 1)
    scene = fleet({"claim": 1, "start": 1, "plain": True})
    scene.wait("holds")

    scene.wait("Beaten", 5)

    assert scene.rows("SELECT heartbeat_at FROM fencepost.running") == [(None,)]
    assert renewed(scene) == set()


@pytest.mark.spec("W5", "C3")
def test_a_locked_job_is_neither_lost_nor_renewed_and_stops_no_other(fleet: FleetMaker, database: Database) -> None:
    """A1: the beat never waits for somebody's open transaction."""
    enqueue(database, 2)
    scene = fleet({"claim": 2, "start": 2}, queues={"default": 2})
    (holds,) = scene.wait("holds")
    locked, free = holds["ids"]
    with database.connect() as conn, conn.transaction():
        conn.execute("SELECT FROM fencepost.running WHERE id = %s FOR UPDATE", [locked])
        seen = len(scene.all("Beaten"))

        later = scene.wait("Beaten", seen + 4)[seen + 1 :]

        assert all(locked not in event["ids"] for event in later)
        assert any(free in event["ids"] for event in later)
        assert scene.all("LostJobs") == []
    eventually(lambda: locked in scene.all("Beaten")[-1]["ids"], within=30)


@pytest.mark.spec("W8")
def test_a_cancel_request_travels_with_the_beat(fleet: FleetMaker, database: Database) -> None:
    enqueue(database, 1)
    scene = fleet({"claim": 1, "start": 1})
    (holds,) = scene.wait("holds")

    scene.rows("SELECT fencepost.cancel_v1('job:1', 'test', 'story')")

    assert scene.wait("CancelJobs")[0]["ids"] == holds["ids"]
    eventually(lambda: holds["ids"][0] in scene.all("Beaten")[-1]["ids"], within=30)


@pytest.mark.spec("C3")
def test_a_lost_lease_is_told(fleet: FleetMaker, database: Database) -> None:
    """Somebody else took the job; the child stops its body."""
    enqueue(database, 1)
    scene = fleet({"claim": 1, "start": 1})
    (holds,) = scene.wait("holds")

    scene.rows("UPDATE fencepost.running SET run_count = run_count + 1, token = 1 RETURNING id")

    assert scene.wait("LostJobs")[0]["ids"] == holds["ids"]


@pytest.mark.spec("C6")
def test_what_a_stalled_child_has_not_started_goes_back_and_never_starts_there(
    fleet: FleetMaker, database: Database, tmp_path: Path
) -> None:
    """worker.md 3.11: claimed behind a handler that holds the GIL; fenced on both sides."""
    enqueue(database, 3)
    go = tmp_path / "go"
    scene = fleet({"claim": 3, "start": 1, "no_ping": True, "start_later": str(go)}, queues={"default": 3})
    (holds,) = scene.wait("holds")

    scene.until("SELECT count(*) FROM fencepost.running", 1)

    waiting = scene.rows("SELECT id, attempts, crashes FROM fencepost.ready ORDER BY id")
    assert waiting == [(id_, 0, 0) for id_ in sorted(holds["ids"][1:])]
    told = {id_ for event in scene.wait("LostJobs") for id_ in event["ids"]}
    assert told == set(holds["ids"][1:])
    go.touch()
    (started,) = scene.wait("started_later")
    assert started["ok"] == [False, False, False]


@pytest.mark.spec("W5")
def test_an_outage_longer_than_the_ttl_ends_the_worker_with_code_1(
    own_server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """B6: the children are told to give up, then to end."""
    scene = _on(own_server, tmp_path, request, {"on_drain": "leave"})
    scene.wait("Beaten", 2)

    own_server.stop("immediate")

    assert scene.ends() == 1
    assert scene.all("GiveUp")
    assert "longer than heartbeat_ttl (3 s)" in scene.logged()


@pytest.mark.spec("W5")
def test_on_outage_stay_lives_on(own_server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A frozen server answers nothing: calls end by closing the socket. Afterwards beats go on, in the same processes."""
    scene = _on(own_server, tmp_path, request, {}, on_outage="stay")
    scene.wait("Beaten", 2)
    own_server.freeze()
    scene.wait("GiveUp")
    assert scene.process.poll() is None

    own_server.thaw()

    seen = len(scene.all("Beaten"))
    scene.wait("Beaten", seen + 2)
    assert len(scene.all("GiveUp")) == 1
    assert len(scene.all("born")) == 1


@pytest.mark.spec("W4")
def test_an_outage_shorter_than_the_ttl_is_logged_once(
    own_server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    scene = _on(own_server, tmp_path, request, {}, heartbeat_ttl=60)
    scene.wait("Beaten", 2)
    own_server.stop("immediate")
    scene.wait_log("cannot be reached")

    own_server.start()

    scene.wait_log("answers again")
    assert scene.logged().count("cannot be reached") == 1
    assert scene.all("GiveUp") == []


def test_a_schema_that_vanishes_ends_the_worker_with_one_line(fleet: FleetMaker, database: Database) -> None:
    """An error that no retry can mend."""
    scene = fleet()
    scene.wait("Beaten")

    with database.connect() as conn:
        conn.execute("ALTER SCHEMA fencepost RENAME TO gone")

    assert scene.ends() == 3
    assert "fencepost migrate" in scene.logged()


def _on(
    server: Server, folder: Path, request: pytest.FixtureRequest, plan: dict[str, object], **settings: Any
) -> Fleet:
    scene = Fleet(folder, Database(server.dsn, Catalog(), server), plan, **settings)
    request.addfinalizer(scene.close)
    return scene
