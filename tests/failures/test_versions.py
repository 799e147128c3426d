"""One day of a worker on every PostgreSQL that is promised, directly and behind a pooler."""

from __future__ import annotations

import signal

import pytest

from bouncer import transaction_pooler
from servers import Database
from worker.scene import Scene


@pytest.mark.spec("C1", "W3", "R6", "W8")
@pytest.mark.parametrize("way", ["direct", "pooled"])
def test_a_day_of_a_worker(each_version: Database, way: str) -> None:
    """Jobs of all executors, a retry, a crash, a cancel, a late one, a stop that hands back."""
    scene = Scene(each_version)
    try:
        with transaction_pooler(each_version.dsn) as pool:
            worker = scene.worker(dsn=pool.dsn if way == "pooled" else each_version.dsn, slots=8)
            (child,) = worker.wait_children()
            names = scene.put("noop", count=40) + scene.put("thread_sleep", seconds=0.1)
            names += scene.put("process_sleep", seconds=0.1)
            scene.wait_state("succeeded", *names)
            scene.put("killer")
            scene.wait_state("failed", "killer")
            assert [how for how, _, _ in scene.runs("killer")] == ["stale"]
            assert worker.wait_children() != [child]
            scene.put("sleep", key="cancelled", seconds=60)
            scene.wait("begin", "cancelled")
            scene.rows("SELECT fencepost.cancel_v1('cancelled', 'somebody', 'enough')")
            scene.wait_state("cancelled", "cancelled")
            scene.put("sleep", key="handed back", seconds=60)
            scene.wait("begin", "handed back")
            worker.send(signal.SIGTERM)
            assert worker.ends() == 0
            assert (scene.state("handed back"), scene.job("handed back")["attempts"]) == ("queued", 0)
            assert scene.rows("SELECT * FROM fencepost.fsck") == []
    finally:
        scene.close()
