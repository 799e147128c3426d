"""The way to the database makes trouble: silence, resets, half-open sockets, closed doors, a pooler that restarts.

Workers reach the server through a proxy of the tests' own, which they cannot tell from a network (SPEC W4, W5).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from failures.trouble import ours
from fencepost.testing.proxy import Proxy, proxy
from waiting import eventually, pause
from worker.scene import Scene


@pytest.fixture
def way(scene: Scene) -> Iterator[Proxy]:
    with proxy(scene.database.dsn) as made:
        yield made


@pytest.mark.spec("W4", "W6")
@pytest.mark.parametrize("trouble", ["cut", "half_open", "cut and refuse", "hold", "half_open and hold"])
def test_a_network_that_fails_for_less_than_the_ttl_costs_nothing(scene: Scene, way: Proxy, trouble: str) -> None:
    """Bodies run once, outcomes arrive, no connection is leaked. NTF-5, DBO-1; source text 002, rows 23 and 27."""
    worker = scene.worker(dsn=way.dsn, slots=3, heartbeat_ttl=15)
    children = worker.wait_children()
    scene.put("sleep", key="through", seconds=4)
    scene.put("sleep", key="ends within", seconds=1)
    scene.wait("begin", count=2)
    before = eventually(lambda: way.connections if way.connections >= 5 else 0)

    for word in trouble.split(" and "):
        getattr(way, word)()
    scene.wait("end", "ends within")
    pause(1.0)
    way.accept()
    way.release()

    scene.wait_state("succeeded", "through", "ends within")
    assert [scene.job(name)["run_count"] for name in ("through", "ends within")] == [1, 1]
    assert len(scene.all("begin")) == 2
    scene.put("noop")
    scene.wait_state("succeeded", "noop")
    assert worker.children() == children
    eventually(lambda: way.connections <= before, within=30)
    with scene.database.connect() as conn:
        eventually(lambda: "fencepost listen" in ours(conn).values(), within=30)


@pytest.mark.spec("W5", "C6")
def test_a_worker_that_is_cut_off_gives_up_before_another_begins(scene: Scene, way: Proxy) -> None:
    """Source text 002, row 27: nobody answers and nothing is reset; the body has ended when its job starts elsewhere."""
    cut_off = scene.worker(dsn=way.dsn)
    cut_off.wait_children()
    scene.put("sleep", seconds=60, then=0)
    scene.wait("begin", "sleep")
    scene.worker().wait_children()
    cut_off.may_end = True

    way.hold()

    scene.wait_state("succeeded", "sleep")
    (broken,) = scene.all("broken", "sleep")
    assert broken["at"] < scene.all("begin", "sleep")[1]["at"]
    assert cut_off.ends() == 1


@pytest.mark.spec("W4")
def test_the_address_behind_the_name_changes(own_scene: Scene) -> None:
    """As after a change of DNS or of a proxy's target: new connections ask again where to go."""
    with proxy(own_scene.database.dsn) as way:
        worker = own_scene.worker(dsn=way.dsn, heartbeat_ttl=20)
        children = worker.wait_children()
        good, way.target = way.target, "host=127.0.0.1 port=1 user=nobody dbname=nowhere"
        way.cut()
        pause(1.0)
        own_scene.put("noop")
        way.target = good

        own_scene.wait_state("succeeded", "noop")
        assert worker.children() == children


@pytest.mark.spec("W4", "W10")
def test_a_silent_listener_costs_a_poll_and_no_more(scene: Scene, way: Proxy) -> None:
    """NTF-5: notifications are lost without a word; jobs are still found within the poll interval."""
    scene.worker(dsn=way.dsn, poll_interval=0.5).wait_children()
    for turn in range(3):
        way.half_open()
        scene.put("noop", key=f"turn {turn}")
        scene.wait_state("succeeded", f"turn {turn}")
