"""The disk of the tables is really full for a while: a small file system of the test's own (SPEC W4, W6; catalogue DBO)."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg import sql

from fencepost import App
from fencepost.errors import OutageError
from fencepost.testing.torture.disk import SmallDisk, is_possible
from waiting import eventually
from worker.scene import Scene


@contextmanager
def small_disk() -> Iterator[tuple[Path, SmallDisk]]:
    """Seen by the servers that run already, so it is not mounted in private."""
    with tempfile.TemporaryDirectory(prefix="fpd-") as folder:
        path = Path(folder) / "disk"
        disk = SmallDisk(path)
        try:
            yield path, disk
        finally:
            disk.close()


@pytest.mark.skipif(not is_possible(), reason="no file system can be mounted here")
@pytest.mark.spec("W4", "W6")
def test_a_full_disk_costs_no_run(own_scene: Scene) -> None:
    """53100: outcomes wait in memory, bodies run once, enqueuers are told of an outage; there is room again, it goes on."""
    server = own_scene.database.server
    with small_disk() as (path, disk):
        with server.connect("postgres") as conn:
            conn.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(path))))
            conn.execute("ALTER DATABASE fencepost SET TABLESPACE small")
        names = own_scene.put("fat", count=60, size=4000)
        disk.fill()

        worker = own_scene.worker(app="failures.apps.trouble_app:app", slots=8, heartbeat_ttl=60)
        eventually(lambda: "53100" in worker.logged(), within=40)
        app = App(own_scene.database.dsn, name="writer")

        @app.task("fat")
        def fat(size: int, ballast: str) -> None:
            """Enqueued only."""

        many = [fat.new(size=1, ballast=secrets.token_urlsafe(4000)) for _ in range(1000)]
        with pytest.raises(OutageError, match="53100"):
            app.enqueue_many(many)
        app.close()
        disk.empty()

        own_scene.wait_state("succeeded", *names)
        begun = [event["job"] for event in own_scene.all("begin")]
        assert sorted(begun) == sorted(set(begun))
        assert {own_scene.job(name)["run_count"] for name in names} == {1}
        assert own_scene.rows("SELECT * FROM fencepost.fsck") == []
        for one in own_scene.workers:
            one.kill_all()
        with server.connect("postgres") as conn:
            conn.execute("ALTER DATABASE fencepost SET TABLESPACE pg_default")
