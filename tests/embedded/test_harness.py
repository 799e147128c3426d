"""The fixtures that all other tests stand on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from fencepost.embedded import guardian
from servers import Database, Server
from waiting import always, eventually


def test_each_database_is_fresh_and_migrated(database: Database) -> None:
    with database.connect() as conn:
        answer = conn.execute("select answer from fencepost.enqueue('task', '{}', 'one')").fetchone()

    assert answer == ("created",)  # in a second run of the same test too: no row of the first is left


def test_an_empty_database_has_no_schema(empty_database: Database) -> None:
    with empty_database.connect() as conn:
        found = conn.execute("select 1 from pg_namespace where nspname = 'fencepost'").fetchone()

    assert found is None


def test_each_version_is_a_database_on_that_version(each_version: Database) -> None:
    with each_version.connect() as conn:
        said = conn.execute("show server_version_num").fetchone()

    assert said is not None
    assert int(said[0]) // 10000 == each_version.server.major


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_an_own_server_is_stopped_and_started_and_keeps_what_was_committed(own_server: Server, mode: str) -> None:
    with own_server.connect() as conn:
        conn.execute("create table kept as select 1 as n")

    own_server.stop(mode)
    with pytest.raises(psycopg.OperationalError):
        own_server.connect()
    own_server.start()

    with own_server.connect() as conn:
        assert conn.execute("select n from kept").fetchone() == (1,)


def test_an_own_server_can_be_frozen(own_server: Server) -> None:
    with own_server.connect() as conn, ThreadPoolExecutor(1) as pool:
        own_server.freeze()
        try:
            asked = pool.submit(conn.execute, "select 1")
            always(lambda: not asked.done(), during=0.3)
        finally:
            own_server.thaw()

        assert asked.result(timeout=10).fetchone() == (1,)


def test_an_own_server_is_killed_with_all_its_processes(own_server: Server) -> None:
    pids = own_server.pids()

    own_server.kill()

    assert all(guardian.is_gone(pid) for pid in pids)
    own_server.start()
    assert own_server.postmaster not in pids


def test_waiting_fails_with_the_last_answer() -> None:
    answers: Callable[[], int] = lambda: 0  # noqa: E731

    with pytest.raises(AssertionError, match="the last answer was 0"):
        eventually(answers, within=0.05)
    with pytest.raises(AssertionError, match="not true any more"):
        always(answers, during=0.05)
