"""The disk of the tables is really full for a while: a small file system of the test's own (SPEC W4, W6; catalogue DBO)."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from psycopg import sql

from fencepost import App
from fencepost.errors import OutageError
from waiting import eventually
from worker.scene import Scene


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fpd-") as folder:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", folder],
            capture_output=True,
            check=False,
        )
        if made.returncode:
            pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """What is left of it, to the last block."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass
    return ballast


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
@pytest.mark.spec("W4", "W6")
def test_a_full_disk_costs_no_run(own_scene: Scene) -> None:
    """53100: outcomes wait in memory, bodies run once, enqueuers are told of an outage; there is room again, it goes on."""
    server = own_scene.database.server
    with small_disk(96) as disk:
        with server.connect("postgres") as conn:
            conn.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(disk))))
            conn.execute("ALTER DATABASE fencepost SET TABLESPACE small")
        names = own_scene.put("fat", count=60, size=4000)
        ballast = fill(disk)

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
        ballast.unlink()

        own_scene.wait_state("succeeded", *names)
        begun = [event["job"] for event in own_scene.all("begin")]
        assert sorted(begun) == sorted(set(begun))
        assert {own_scene.job(name)["run_count"] for name in names} == {1}
        assert own_scene.rows("SELECT * FROM fencepost.fsck") == []
        for one in own_scene.workers:
            one.kill_all()
        with server.connect("postgres") as conn:
            conn.execute("ALTER DATABASE fencepost SET TABLESPACE pg_default")
