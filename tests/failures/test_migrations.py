"""Migrations while everything else goes on, and migrators that die: nobody waits long, and the next run converges.

SPEC A4; catalogue MIG-1, MIG-2, MIG-4; review B11, B12.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from fencepost.sql.catalog import Catalog, SqlFile
from fencepost.store.schema import check, migrate
from servers import Database
from store.migrating import Migrators, shape, with_files
from waiting import eventually
from worker.scene import Scene

STORM = "failures.apps.storm_app:app"
POINTS = 50


def nobody_migrates(conn: psycopg.Connection[Any]) -> bool:
    """The server process of a killed migrator has noticed it, too."""
    return conn.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone() == (0,)


@pytest.mark.slow
@pytest.mark.spec("A4")
def test_killed_at_any_point_the_next_run_converges(empty_database: Database, migrators: Migrators) -> None:
    """kill -9 before and after the n-th exchange with the server, for 50 points all over the run."""
    dsn = empty_database.dsn
    whole = migrators.migrate(dsn, "killed_not")
    assert whole["status"] == 0
    points = [random.randint(3, whole["waits"]) for _ in range(POINTS)]
    left: set[str] = set()

    with empty_database.connect() as conn:
        wanted = shape(conn, "killed_not")
        for number, point in enumerate(points):
            name = f"killed_{number}"
            killed = migrators.migrate(dsn, name, die_at=point, after=number % 2 == 1)
            assert killed["status"] == 9, f"point {point} was not reached"
            left.add(check(conn, Catalog(name)).state)
            eventually(lambda: nobody_migrates(conn))

            again = migrators.migrate(dsn, name)

            assert again["status"] == 0
            assert check(conn, Catalog(name)).state == "current"
            assert shape(conn, name) == wanted, f"killed at point {point} of {whole['waits']}"
            conn.execute(f"drop schema {name} cascade".encode())

    assert "older" in left  # some of the points lay in the middle


# ------------------------------------------------------------------------------------------------------------ under load


class Load:
    """Programs that enqueue all the time, some of them in transactions that stay open for a while."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.names: list[str] = []
        self.longest = 0.0
        self.errors: list[Exception] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._enqueue, args=(n, n == 0)) for n in range(3)]

    def _enqueue(self, number: int, slow: bool) -> None:
        try:
            with self.database.connect() as conn:
                count = 0
                while not self._over.wait(0.3 if slow else 0.02):
                    name = f"load:{number}:{count}"
                    begun = time.monotonic()
                    with conn.transaction():
                        conn.execute("select fencepost.enqueue('async_small', '{\"how\": \"good\"}', %s)", [name])
                        self.longest = max(self.longest, time.monotonic() - begun)
                        if slow:
                            self._over.wait(0.4)
                    self.names.append(name)
                    count += 1
        except Exception as error:  # noqa: BLE001 - the test's own thread looks at it
            self.errors.append(error)

    @contextmanager
    def going(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(30)


def wear(conn: psycopg.Connection[Any]) -> None:
    """Work for a migrator: functions of another release, an index that is invalid and two that are gone."""
    conn.execute("update fencepost.migration set checksum = 'old' where kind = 'function'")
    conn.execute("update pg_index set indisvalid = false where indexrelid = to_regclass('fencepost.ready_claim')")
    conn.execute("set lock_timeout = '300ms'")
    for index in ("fencepost.job_tags", "fencepost.parked_key"):
        eventually(lambda index=index: dropped(conn, index))  # type: ignore[misc]


def dropped(conn: psycopg.Connection[Any], index: str) -> bool:
    try:
        conn.execute(f"drop index concurrently if exists {index}".encode())
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def assert_each_ran_once(scene: Scene, load: Load) -> None:
    assert load.errors == []
    assert len(load.names) > 50
    done = "select count(*) from fencepost.jobs where state = 'succeeded' and run_count = 1 and job_id like 'load:%%'"
    eventually(lambda: scene.value(done) == len(load.names), within=30)
    assert scene.rows("SELECT * FROM fencepost.quarantine") == []
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


@pytest.mark.slow
@pytest.mark.spec("A4")
def test_a_migration_under_load_makes_nobody_wait_long_and_loses_nothing(scene: Scene) -> None:
    """MIG-1, MIG-2, MIG-4: new columns, functions and indexes while workers run and others write. The lock on a table is
    waited for at most 2 s at a time; the open transactions here last 0.4 s, so nobody waits much longer than that."""
    database, load = scene.database, Load(scene.database)
    worker = scene.worker(app=STORM, slots=8)
    children = worker.wait_children()
    later = with_files(
        SqlFile("0009_job", "alter table fencepost.job add column later int", {"phase": "expand"}),
        SqlFile("0010_ready", "alter table fencepost.ready add column later int", {"phase": "expand"}),
    )

    with load.going(), database.connect() as conn:
        eventually(lambda: len(load.names) > 20)
        wear(conn)
        first = migrate(database.dsn, later)
        for _ in range(3):
            wear(conn)
            again = migrate(database.dsn, later)
            assert set(again.rebuilt) == {"ready_claim", "job_tags", "parked_key"}
            assert check(conn, later).state == "current"
        seen = len(load.names)
        eventually(lambda: len(load.names) > seen + 20)

    assert first.applied == ("0009_job", "0010_ready")
    assert load.longest < 2.5
    assert_each_ran_once(scene, load)
    assert worker.children() == children


@pytest.mark.slow
@pytest.mark.spec("A4")
def test_migrators_that_are_killed_under_load_leave_a_schema_that_works(scene: Scene, migrators: Migrators) -> None:
    """Whatever the dead one left half done, workers and callers of this release go on, and the next one ends it."""
    database, load = scene.database, Load(scene.database)
    scene.worker(app=STORM, slots=8).wait_children()

    with load.going(), database.connect() as conn:
        wanted = shape(conn)
        wear(conn)
        whole = migrators.migrate(database.dsn, "fencepost")
        for number in range(12):
            wear(conn)
            migrators.migrate(
                database.dsn, "fencepost", die_at=random.randint(2, whole["waits"]), after=number % 2 == 1
            )
            eventually(lambda: nobody_migrates(conn), within=20)
            assert check(conn, Catalog()).state in ("older", "invalid index", "missing index", "current")
        assert migrators.migrate(database.dsn, "fencepost")["status"] == 0
        assert shape(conn) == wanted

    assert load.longest < 2.5
    assert_each_ran_once(scene, load)
