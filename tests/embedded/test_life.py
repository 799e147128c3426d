"""Who starts the server, and when it stops: real processes, really killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from embedded.users import User
from fencepost.embedded import guardian
from fencepost.embedded import server as server_module
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import EmbeddedServerError
from processtable import parent_of
from waiting import always, eventually


def guardian_of(root: Path) -> int:
    """The pid of the process whose child the postmaster is."""
    postmaster = EmbeddedServer(root).status().pid
    assert postmaster is not None
    return parent_of(postmaster)


def runs(root: Path) -> bool:
    return EmbeddedServer(root).status().running


def test_the_first_start_makes_a_real_server_in_a_private_folder(root: Path) -> None:
    with EmbeddedServer(root) as server, psycopg.connect(server.dsn()) as conn:
        names = ("fsync", "full_page_writes", "synchronous_commit", "data_checksums", "listen_addresses")
        settings = {name: conn.execute(f"show {name}").fetchone() for name in names}
        encoding = conn.execute("select current_database(), pg_encoding_to_char(encoding) from pg_database").fetchone()

    assert settings == {
        "fsync": ("on",),
        "full_page_writes": ("on",),
        "synchronous_commit": ("on",),
        "data_checksums": ("on",),
        "listen_addresses": ("",),
    }
    assert encoding == ("fencepost", "UTF8")
    assert root.stat().st_mode & 0o777 == 0o700
    assert (root / "s").stat().st_mode & 0o777 == 0o700
    assert (root / ".gitignore").read_text() == "*\n"


def test_a_second_start_finds_what_the_first_one_committed(used_root: Path) -> None:
    with EmbeddedServer(used_root) as server, psycopg.connect(server.dsn()) as conn:
        conn.execute("create table kept as select 7 as n")
    eventually(lambda: not runs(used_root))

    with EmbeddedServer(used_root) as server, psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select n from kept").fetchone() == (7,)


def test_the_server_stops_when_its_only_user_is_killed(used_root: Path) -> None:
    with User(used_root) as user:
        pid = user.server_pid()
        keeper = guardian_of(used_root)

        user.kill()

        eventually(lambda: guardian.is_gone(pid) and guardian.is_gone(keeper))
    assert not runs(used_root)


def test_the_server_outlives_its_killed_starter_while_another_user_lives(used_root: Path) -> None:
    with User(used_root) as starter, User(used_root) as other:
        pid = starter.server_pid()
        assert other.server_pid() == pid

        starter.kill()

        always(lambda: not guardian.is_gone(pid), during=0.8)
        other.end()
        eventually(lambda: guardian.is_gone(pid))


def test_six_starters_at_once_make_one_server_and_six_killed_users_end_it(root: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(User(root)) for _ in range(6)]
        pids = {user.server_pid() for user in users}
        assert len(pids) == 1

        for user in users:
            user.kill()

        eventually(lambda: all(guardian.is_gone(pid) for pid in pids))


def test_two_servers_of_one_program_are_two_users(used_root: Path) -> None:
    first, second = EmbeddedServer(used_root).start(), EmbeddedServer(used_root).start()

    first.release()
    first.release()

    always(lambda: runs(used_root), during=0.6)
    second.release()
    eventually(lambda: not runs(used_root))


def test_a_killed_server_is_recovered_by_the_next_start(used_root: Path) -> None:
    server = EmbeddedServer(used_root).start()
    with psycopg.connect(server.dsn()) as conn:
        conn.execute("create table kept as select 7 as n")
    before = server.status().pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    eventually(lambda: guardian.is_gone(before))

    server.start()

    with psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select n from kept").fetchone() == (7,)
    assert server.status().pid != before
    server.release()
    eventually(lambda: not runs(used_root))


def test_a_start_waits_for_the_last_processes_of_a_killed_server(used_root: Path) -> None:
    server = EmbeddedServer(used_root).start()
    with psycopg.connect(server.dsn()) as conn:
        backend = conn.info.backend_pid
        postmaster = server.status().pid
        assert postmaster is not None
        os.kill(backend, signal.SIGSTOP)
        os.kill(postmaster, signal.SIGKILL)
        server.release()

        with User(used_root) as user:
            eventually(lambda: "pre-existing shared memory block" in server.logs(200))
            os.kill(backend, signal.SIGCONT)

            assert user.server_pid() != postmaster


def test_a_killed_guardian_takes_the_server_along_and_the_next_start_works(used_root: Path) -> None:
    server = EmbeddedServer(used_root).start()
    before = server.status().pid
    assert before is not None

    os.kill(guardian_of(used_root), signal.SIGKILL)

    eventually(lambda: guardian.is_gone(before))
    server.start()
    assert server.status().pid != before
    server.release()
    eventually(lambda: not runs(used_root))


def test_a_start_right_after_the_guardian_was_killed_works(used_root: Path) -> None:
    server = EmbeddedServer(used_root).start()

    os.kill(guardian_of(used_root), signal.SIGKILL)

    def answers() -> bool:
        server.start()
        try:
            with psycopg.connect(server.dsn("postgres")) as conn:
                return conn.execute("select 1").fetchone() == (1,)
        except psycopg.OperationalError:  # it was the dying one that answered: then once more
            return False

    assert answers() or answers()


def test_a_guardian_asked_to_end_stops_the_server_in_good_order(used_root: Path) -> None:
    server = EmbeddedServer(used_root).start()
    pid = server.status().pid
    assert pid is not None

    os.kill(guardian_of(used_root), signal.SIGTERM)

    eventually(lambda: guardian.is_gone(pid))
    eventually(lambda: "database system is shut down" in server.logs())


def test_without_a_parent_death_signal_a_new_guardian_adopts_the_server(
    used_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: the server outlives a killed guardian, goes on serving, and still stops with its last user."""
    monkeypatch.setattr(server_module, "_TIED", False)
    server = EmbeddedServer(used_root).start()
    before = server.status().pid
    assert before is not None
    keeper = guardian_of(used_root)
    os.kill(keeper, signal.SIGKILL)
    eventually(lambda: guardian.is_gone(keeper))
    always(lambda: not guardian.is_gone(before), during=0.3)

    server.start()

    assert server.status().pid == before
    server.release()
    eventually(lambda: guardian.is_gone(before))


def test_stop_ends_the_server_for_everybody(used_root: Path) -> None:
    with User(used_root) as user:
        pid = user.server_pid()
        server = EmbeddedServer(used_root)

        assert server.stop()

        assert guardian.is_gone(pid)
        assert not server.stop()
        assert server.start().status().pid != pid


def test_a_kept_server_outlives_its_users_until_it_is_stopped(used_root: Path) -> None:
    server = EmbeddedServer(used_root)
    server.start(keep=True)
    assert server.status().keep

    server.release()

    always(lambda: runs(used_root), during=0.8)
    assert server.stop()
    assert not server.status().keep


def test_reset_refuses_while_somebody_uses_the_server_and_makes_it_empty_afterwards(used_root: Path) -> None:
    server = EmbeddedServer(used_root)
    with User(used_root) as user:
        pid = user.server_pid()
        with psycopg.connect(server.dsn()) as conn:
            conn.execute("create table gone as select 1 as n")
        with pytest.raises(EmbeddedServerError, match="Another program uses the server"):
            server.reset()
        assert not guardian.is_gone(pid)

    server.reset()

    assert not (used_root / "data").exists()
    with server, psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select to_regclass('gone')").fetchone() == (None,)


FORKING = """
import os, sys
from pathlib import Path
from fencepost.embedded.server import EmbeddedServer

server = EmbeddedServer(Path(sys.argv[1])).start()
child = os.fork()
if child == 0:
    server.release() if sys.argv[2:] else None
    sys.stdin.read()
    os._exit(0)
print(server.status().pid, child, flush=True)
sys.stdin.read()
"""


def test_a_forked_child_shares_its_parents_use(used_root: Path) -> None:
    with User(used_root, FORKING) as user:
        pid, child = map(int, user.word().split())

        user.process.kill()

        always(lambda: not guardian.is_gone(pid), during=0.8)
        os.kill(child, signal.SIGKILL)
        eventually(lambda: guardian.is_gone(pid))


def test_a_forked_child_that_releases_does_not_take_the_server_from_its_parent(used_root: Path) -> None:
    with User(used_root, FORKING.replace("sys.argv[2:]", "True")) as user:
        pid, _child = map(int, user.word().split())

        always(lambda: not guardian.is_gone(pid), during=0.8)


STARTING_ANOTHER = """
import subprocess, sys
from pathlib import Path
from fencepost.embedded.server import EmbeddedServer

server = EmbeddedServer(Path(sys.argv[1])).start()
other = subprocess.Popen(["sleep", "60"], close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(server.status().pid, other.pid, flush=True)
sys.stdin.read()
"""


def test_a_program_started_by_a_user_is_no_user(used_root: Path) -> None:
    with User(used_root, STARTING_ANOTHER) as user:
        pid, other = map(int, user.word().split())
        try:
            user.kill()

            eventually(lambda: guardian.is_gone(pid))
            assert not guardian.is_gone(other)
        finally:
            os.kill(other, signal.SIGKILL)


def test_variables_of_another_server_change_nothing(used_root: Path) -> None:
    elsewhere = {"PGDATA": "/nowhere", "PGPORT": "1", "PGHOST": "nowhere.invalid", "PGDATABASE": "no", "PGUSER": "no"}

    with User(used_root, environment=elsewhere | {"LC_ALL": "xx_YY"}) as user:
        assert user.server_pid() == EmbeddedServer(used_root).status().pid


@pytest.mark.spec("A1")
@pytest.mark.parametrize(
    "elsewhere",
    [
        {"PGHOSTADDR": "127.0.0.1", "PGTARGETSESSIONATTRS": "standby", "PGCHANNELBINDING": "require"},
        {"PGSERVICE": "nosuch", "PGSSLMODE": "nonsense", "PGREQUIREAUTH": "scram-sha-256"},
        {"PGOPTIONS": "-c default_transaction_read_only=on", "PGTZ": "Nowhere/Never"},
    ],
    ids=" ".join,
)
def test_variables_of_another_connection_change_nothing(
    used_root: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: dict[str, str]
) -> None:
    for name, value in elsewhere.items():
        monkeypatch.setenv(name, value)

    server = EmbeddedServer(used_root).start(timeout_s=30)

    for name in elsewhere:
        monkeypatch.delenv(name)
    with psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select current_database()").fetchone() == ("fencepost",)
    server.release()
    eventually(lambda: not runs(used_root))


def test_an_address_of_another_server_is_not_followed(used_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")

    with EmbeddedServer(used_root) as server, psycopg.connect(server.dsn()) as conn:
        row = conn.execute("show data_directory").fetchone()

    assert row is not None
    assert Path(row[0]).samefile(used_root / "data")


def test_a_server_that_refuses_its_database_is_one_sentence(root: Path) -> None:
    with (
        pytest.raises(EmbeddedServerError, match="cannot be made: .*read-only transaction"),
        EmbeddedServer(root, settings={"default_transaction_read_only": "on"}) as server,
    ):
        server.release()


def test_programs_with_different_temporary_folders_share_a_server_with_a_long_path(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = room / ("x" * 120) / "pg"
    (room / "one").mkdir()
    (room / "two").mkdir()

    with User(long, environment={"TMPDIR": str(room / "one")}) as first:
        pid = first.server_pid()
        with User(long, environment={"TMPDIR": str(room / "two")}) as second:
            assert second.server_pid() == pid
        (sockets,) = (room / "one").iterdir()
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert not list((room / "two").iterdir())


def test_a_socket_folder_that_others_can_enter_is_refused(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = room / ("x" * 120) / "pg"
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    prepared = EmbeddedServer(long).layout.socket_folder()
    prepared.mkdir()
    prepared.chmod(0o777)

    with pytest.raises(EmbeddedServerError, match="not private to this account"):
        EmbeddedServer(long).start()


@pytest.mark.parametrize("name", ["a space", 'it\'s "new"', "a, b", "ключи", "-c"])
def test_a_path_with_uncommon_characters_works(
    room: Path, made_data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    root = room / name
    root.mkdir()
    (root / "start.lock").touch()
    shutil.copytree(made_data, root / "data")

    with EmbeddedServer(root) as server, psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_python_options_of_the_user_do_not_reach_the_guardian(used_root: Path) -> None:
    (used_root.parent / "ctypes.py").write_text("raise SystemExit('a stranger')")

    with User(used_root, environment={"PYTHONPATH": os.pathsep.join([*sys.path, str(used_root.parent)])}) as user:
        assert user.server_pid() > 0
