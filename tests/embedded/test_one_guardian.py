"""One guardian a folder, and `stop` means stopped: nobody waits to start again what was ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from embedded.users import User
from fencepost.embedded import guardian
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import EmbeddedServerError
from waiting import always, eventually

FEW = {"max_connections": "3", "superuser_reserved_connections": "0", "max_wal_senders": "0"}


def guardians(root: Path) -> list[int]:
    """The pids of the guardians of this folder, whether they hold it or wait for it."""
    found = []
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            said = words.read_bytes().split(b"\0")
            if guardian.__file__.encode() in said and str(root).encode() in said:
                found.append(int(words.parent.name))
    return found


@contextmanager
def no_connection_left(server: EmbeddedServer) -> Iterator[None]:
    held = [psycopg.connect(server.dsn()) for _ in range(3)]
    try:
        yield
    finally:
        for conn in held:
            conn.close()


@pytest.mark.spec("A1")
def test_a_start_that_gets_no_connection_leaves_no_second_guardian_and_stop_means_stopped(used_root: Path) -> None:
    server = EmbeddedServer(used_root, settings=FEW).start()
    with no_connection_left(server), pytest.raises(EmbeddedServerError, match="runs but cannot be reached"):
        EmbeddedServer(used_root).start(timeout_s=0.3)
    assert len(guardians(used_root)) == 1

    assert EmbeddedServer(used_root).stop()

    assert guardians(used_root) == []
    always(lambda: not server.status().running, during=0.6)
    server.release()


def test_a_start_waits_for_a_connection_to_become_free(used_root: Path) -> None:
    server = EmbeddedServer(used_root, settings=FEW).start()
    pid = server.status().pid
    with no_connection_left(server):
        user = User(used_root)
        eventually(lambda: "too many clients" in server.logs(200))

    with user:
        assert user.server_pid() == pid
    assert len(guardians(used_root)) == 1
    server.release()


def test_a_guardian_that_finds_another_ones_server_leaves(used_root: Path) -> None:
    server = EmbeddedServer(used_root).start()

    second = server._spawn(["false"])  # as a starter that was killed right after

    assert second.wait(20) == guardian.GUARDED
    server.release()
    eventually(lambda: guardians(used_root) == [])


def test_a_guardian_that_nobody_wants_starts_nothing(used_root: Path) -> None:
    orphaned = EmbeddedServer(used_root)._spawn(["touch", str(used_root / "begun")])

    assert orphaned.wait(20) == 0
    assert not (used_root / "begun").exists()


def test_a_server_whose_socket_is_gone_is_told_apart_at_once(used_root: Path) -> None:
    server = EmbeddedServer(used_root).start()
    server.layout.socket().unlink()

    with pytest.raises(EmbeddedServerError, match="`fencepost dev stop` ends it"):
        EmbeddedServer(used_root).start(timeout_s=60)

    assert server.stop()
    with server:
        assert server.status().running


@pytest.mark.parametrize("fails", ["setting", "database"])
def test_a_failed_start_is_not_kept(used_root: Path, fails: str) -> None:
    failing = EmbeddedServer(used_root, settings={"no_such_setting": "1"} if fails == "setting" else FEW)
    if fails == "setting":
        with pytest.raises(EmbeddedServerError):
            failing.start(keep=True)
    else:
        failing.start()
        with no_connection_left(failing), pytest.raises(EmbeddedServerError):
            EmbeddedServer(used_root).start(keep=True, timeout_s=0.1)
        failing.release()

    with EmbeddedServer(used_root) as later:
        assert not later.status().keep
    eventually(lambda: not later.status().running)
