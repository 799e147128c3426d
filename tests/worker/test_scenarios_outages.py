"""The database goes away under real jobs (worker.md 2; SPEC W4, W5, W6; review B6)."""

from __future__ import annotations

import pytest

from waiting import pause
from worker.scene import Scene


@pytest.mark.spec("W4", "W6")
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_shorter_than_the_ttl_costs_nothing(own_scene: Scene, mode: str) -> None:
    """Bodies go on, outcomes are written afterwards, each body runs once."""
    own_scene.worker(slots=3, heartbeat_ttl=30).wait_children()
    own_scene.put("sleep", key="through", seconds=3)
    own_scene.put("sleep", key="ends within", seconds=0.7)
    own_scene.wait("begin", count=2)

    own_scene.database.server.stop(mode)
    own_scene.wait("end", "ends within")
    own_scene.database.server.start()

    own_scene.wait_state("succeeded", "through", "ends within")
    assert own_scene.job("through")["run_count"] == 1
    assert own_scene.job("ends within")["run_count"] == 1
    own_scene.put("noop")
    own_scene.wait_state("succeeded", "noop")


@pytest.mark.spec("W4")
def test_after_a_restart_nobody_waits_a_whole_interval_for_the_next_beat(own_scene: Scene) -> None:
    """No claim until a beat has passed; so the worker asks for one as soon as it has met trouble."""
    own_scene.worker(heartbeat_interval=60, heartbeat_ttl=200).wait_children()
    own_scene.put("noop", key="before")
    own_scene.wait_state("succeeded", "before")

    own_scene.database.server.stop("fast")
    own_scene.database.server.start()
    own_scene.put("noop", key="after")

    own_scene.wait_state("succeeded", "after", within=20)


@pytest.mark.spec("W4")
def test_a_server_that_hangs_for_less_than_the_ttl_costs_nothing(own_scene: Scene) -> None:
    """Connections stay open and nothing answers: calls end by closing the socket."""
    own_scene.worker().wait_children()
    own_scene.put("sleep", seconds=3)
    own_scene.wait("begin")

    own_scene.database.server.freeze()
    pause(1.2)
    own_scene.database.server.thaw()

    own_scene.wait_state("succeeded", "sleep")
    assert own_scene.job("sleep")["run_count"] == 1


@pytest.mark.spec("W5")
def test_an_outage_longer_than_the_ttl_cancels_handlers_before_it_and_ends_with_code_1(own_scene: Scene) -> None:
    worker = own_scene.worker()
    worker.wait_children()
    own_scene.put("sleep", seconds=60, then=0)
    own_scene.wait("begin")
    worker.may_end = True

    own_scene.database.server.stop("immediate")

    (broken,) = own_scene.wait("broken", "sleep")
    assert worker.ends() == 1
    assert "longer than heartbeat_ttl" in worker.logged()
    own_scene.database.server.start()
    own_scene.worker()
    again = own_scene.wait("begin", "sleep", count=2)[1]
    assert broken["at"] < again["at"]
    own_scene.wait_state("succeeded", "sleep")


@pytest.mark.spec("W5", "W4")
def test_on_outage_stay_gives_up_its_jobs_and_claims_again_after_a_good_beat(own_scene: Scene) -> None:
    worker = own_scene.worker(on_outage="stay")
    (child,) = worker.wait_children()
    own_scene.put("sleep", seconds=60, then=0)
    own_scene.wait("begin")
    own_scene.database.server.freeze()
    own_scene.wait("broken", "sleep")
    pause(1.0)

    own_scene.database.server.thaw()

    own_scene.wait_state("succeeded", "sleep")
    own_scene.put("noop")
    own_scene.wait_state("succeeded", "noop")
    assert worker.children() == [child]
    assert own_scene.all("end", "sleep")[0]["pid"] == child


@pytest.mark.spec("W5")
def test_with_a_ttl_above_the_outage_the_worker_survives(own_scene: Scene) -> None:
    own_scene.worker(heartbeat_ttl=60).wait_children()
    own_scene.put("sleep", seconds=4)
    own_scene.wait("begin")

    own_scene.database.server.stop("fast")
    pause(3.5)
    own_scene.database.server.start()

    own_scene.wait_state("succeeded", "sleep")
    assert own_scene.job("sleep")["run_count"] == 1


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.spec("W5")
def test_outages_at_full_length_defaults(own_scene: Scene) -> None:
    """15 s of 30: nothing lost. 60 s: given up before the ttl, exit code 1."""
    worker = own_scene.worker(heartbeat_interval=5, heartbeat_ttl=30, shutdown_timeout=10)
    worker.wait_children()
    own_scene.put("sleep", key="short", seconds=25)
    own_scene.wait("begin")
    own_scene.database.server.freeze()
    pause(15)
    own_scene.database.server.thaw()
    own_scene.wait_state("succeeded", "short", within=60)
    assert own_scene.job("short")["run_count"] == 1
    own_scene.put("sleep", key="long", seconds=200, then=0)
    (begun,) = own_scene.wait("begin", "long")
    worker.may_end = True

    own_scene.database.server.freeze()

    (broken,) = own_scene.wait("broken", "long", within=60)
    assert broken["at"] - begun["at"] < 36
    assert worker.ends(within=90) == 1
    own_scene.database.server.thaw()
    own_scene.worker()
    own_scene.wait_state("succeeded", "long", within=90)
