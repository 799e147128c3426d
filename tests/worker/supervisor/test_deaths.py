"""Deaths of worker processes, with real processes and a real server (worker.md 3; SPEC W11; review A15)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fencepost.sql.catalog import Catalog
from processtable import is_alive
from servers import Database, Server
from waiting import eventually
from worker.supervisor.fleet import Fleet, FleetMaker, enqueue

IDLE_SUCCESSOR = {"child1": {"claim": 0}}
RUNNING = "SELECT count(*) FROM fencepost.running"


def waiting_jobs(scene: Fleet) -> dict[int, tuple[int, int]]:
    """id -> attempts spent, crashes; of all that wait to be run."""
    rows = scene.rows(
        "SELECT id, attempts, crashes FROM fencepost.ready UNION ALL SELECT id, attempts, crashes FROM fencepost.delayed"
    )
    return {id_: (attempts, crashes) for id_, attempts, crashes in rows}


def one_life(scene: Fleet) -> None:
    """From now on children claim nothing, so that what a death leaves behind can be looked at."""
    plan = scene.folder / "plan.json"
    plan.write_text(plan.read_text().replace('"claim"', '"claimed_before"').replace('"stray"', '"strayed_before"'))


@pytest.mark.spec("W11", "C6")
def test_started_jobs_count_a_crash_and_unstarted_ones_go_back_unspent(fleet: FleetMaker, database: Database) -> None:
    """A15: suspects are the jobs whose bodies had begun, and nobody else."""
    enqueue(database, 5)
    scene = fleet({"claim": 5, "start": 2}, queues={"default": 5})
    (holds,) = scene.wait("holds")
    one_life(scene)

    os.kill(holds["pid"], signal.SIGKILL)

    scene.until(RUNNING, 0)
    seen = waiting_jobs(scene)
    assert [seen[id_] for id_ in holds["ids"]] == [(1, 1), (1, 1), (0, 0), (0, 0), (0, 0)]
    scene.wait("born", 2)


@pytest.mark.spec("W11")
def test_a_death_is_found_without_waiting_for_the_ttl(fleet: FleetMaker, database: Database) -> None:
    """Within about a second, though the lease would last a minute."""
    enqueue(database, 1)
    scene = fleet({"claim": 1, "start": 1}, heartbeat_interval=5, heartbeat_ttl=60)
    (holds,) = scene.wait("holds")

    os.kill(holds["pid"], signal.SIGKILL)

    again = scene.wait("holds", 2)[-1]
    assert again["ids"] == holds["ids"]
    assert again["pid"] != holds["pid"]


def test_bodies_and_strays_are_dead_before_their_jobs_run_again(fleet: FleetMaker, database: Database) -> None:
    """A15 (b), worker.md 3.5: the whole group, and what made a session of its own; a living child's stray stays."""
    enqueue(database, 2)
    scene = fleet({"claim": 1, "start": 1, "stray": True}, processes=2)
    first, second = scene.wait("stray", 2)
    holder = {event["pid"]: event for event in scene.wait("holds", 2)}
    one_life(scene)

    os.kill(first["pid"], signal.SIGKILL)

    scene.until(f"SELECT count(*) FROM fencepost.running WHERE token = {holder[first['pid']]['token']}", 0)
    assert not is_alive(first["body"])
    assert not is_alive(first["stray"])
    assert is_alive(second["body"])
    assert is_alive(second["stray"])


@pytest.mark.spec("W7")
def test_a_job_past_its_maximum_duration_is_killed_and_its_neighbours_are_not_blamed(
    fleet: FleetMaker, database: Database
) -> None:
    """worker.md 3.6: overdue takes the timeout path, started neighbours and unstarted ones go back unspent."""
    enqueue(database, 3)
    scene = fleet({"claim": 3, "start": 2, "limit_s": 0.8}, queues={"default": 3})
    (holds,) = scene.wait("holds")
    one_life(scene)

    scene.until(RUNNING, 0)

    seen = waiting_jobs(scene)
    assert [seen[id_] for id_ in holds["ids"]] == [(1, 0), (0, 0), (0, 0)]
    assert "past its maximum duration" in scene.logged()
    codes = dict(scene.rows("SELECT id, error_code FROM fencepost.attempt"))
    assert codes[holds["ids"][0]] == "TIMEOUT"


@pytest.mark.spec("W7")
def test_a_stuck_child_is_recycled(fleet: FleetMaker, database: Database) -> None:
    """A body that cannot be stopped, its child asks for its own end; the job takes the timeout path."""
    enqueue(database, 2)
    scene = fleet({"claim": 2, "start": 2, "stuck_s": 0.5}, queues={"default": 2})
    (holds,) = scene.wait("holds")
    one_life(scene)

    scene.until(RUNNING, 0)

    seen = waiting_jobs(scene)
    assert [seen[id_] for id_ in holds["ids"]] == [(1, 0), (0, 0)]
    scene.wait("born", 2)


def test_an_outage_delays_a_rescue_and_does_not_lose_it(
    own_server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """worker.md 6.3: rescues are queued and repeated."""
    database = Database(own_server.dsn, Catalog(), own_server)
    enqueue(database, 1)
    scene = Fleet(tmp_path, database, {"claim": 1, "start": 1}, heartbeat_interval=2, heartbeat_ttl=60)
    request.addfinalizer(scene.close)
    (holds,) = scene.wait("holds")
    one_life(scene)
    own_server.stop("immediate")

    os.kill(holds["pid"], signal.SIGKILL)

    scene.wait_log("cannot be reached")
    own_server.start()
    scene.until(RUNNING, 0)
    assert waiting_jobs(scene) == {holds["ids"][0]: (1, 1)}


def test_a_service_that_keeps_dying_ends_with_one_clear_line(fleet: FleetMaker) -> None:
    """worker.md 3.19: five deaths in a minute, with pauses between the starts."""
    scene = fleet({"die_in": "start"})

    code = scene.ends()

    assert code == 1
    assert len(scene.all("born")) == 5
    (line,) = [line for line in scene.logged().splitlines() if line.startswith("fencepost: ")]
    assert "worker processes keep dying" in line
    born = [event["at"] for event in scene.all("born")]
    assert born[2] - born[1] > 0.2
    assert born[4] - born[3] > 0.9


def test_a_refused_start_ends_the_command_with_the_childs_sentence_and_code(fleet: FleetMaker) -> None:
    """A wrong app or a missing schema is no reason to try again."""
    scene = fleet({"refuse": "the schema is missing; run fencepost migrate", "refuse_code": 3}, processes=2)

    code = scene.ends()

    assert code == 3
    lines = [line for line in scene.logged().splitlines() if not line.startswith("{")]
    assert lines == ["fencepost: the schema is missing; run fencepost migrate"]


def test_a_child_that_drained_by_itself_is_replaced_and_is_no_death(fleet: FleetMaker) -> None:
    """Somebody sent SIGTERM to one child."""
    scene = fleet()
    (born,) = scene.wait("born")
    scene.wait("Beaten")

    os.kill(born["pid"], signal.SIGTERM)

    scene.wait("born", 2)
    assert "died" not in scene.logged()
    eventually(lambda: not is_alive(born["pid"]))
