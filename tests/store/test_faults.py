"""What errors mean: each provoked on a real server, not made up (SPEC W4, style: classify by SQLSTATE)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fencepost.errors import DatabaseError, FencepostError, LeaseLostError, OutageError, SchemaError, UsageError
from fencepost.store import faults, jobs
from fencepost.store.drive import run
from servers import Database, Server
from store.hands import SQL, claim, fence_of, new, wire_driver
from waiting import eventually

Conn = psycopg.Connection[Any]


def terminated(db: Database) -> None:
    with db.connect() as victim, db.connect() as killer:
        killer.execute("select pg_terminate_backend(%s)", [victim.info.backend_pid])
        victim.execute("select 1")


def cancelled(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("set statement_timeout = '20ms'")
        conn.execute("select pg_sleep(5)")


def lock_timeout(db: Database) -> None:
    wire = wire_driver(db.dsn)
    wire.run(jobs.enqueue(SQL, [new("a")]))
    job = claim(wire)[0]
    with db.connect() as holder, db.connect() as conn, holder.transaction():
        holder.execute("select from fencepost.running for update")
        conn.execute("set lock_timeout = '20ms'")
        try:
            conn.execute("update fencepost.running set progress = '{}' where id = %s", [fence_of(job).id])
        finally:
            wire.close()


def serialization(db: Database) -> None:
    with db.connect() as one, db.connect() as two:
        one.execute("create table t (n int)")
        one.execute("insert into t values (1)")
        with one.transaction():
            one.execute("set transaction isolation level repeatable read")
            one.execute("select * from t")
            two.execute("update t set n = 2")
            one.execute("update t set n = 3")


def deadlock(db: Database) -> None:
    with db.connect() as one, db.connect() as two:
        one.execute("create table t (n int primary key)")
        one.execute("insert into t values (1), (2)")
        for conn in (one, two):
            conn.execute("set deadlock_timeout = '10ms'")
        held = threading.Barrier(2)

        def cross(conn: Conn, first: int, second: int) -> None:
            with conn.transaction():
                conn.execute("select from t where n = %s for update", [first])
                held.wait(5)
                conn.execute("select from t where n = %s for update", [second])

        with ThreadPoolExecutor(2) as pool:
            tries = [pool.submit(cross, one, 1, 2), pool.submit(cross, two, 2, 1)]
        errors = [error for error in (t.exception() for t in tries) if error is not None]
        raise errors[0]


def read_only(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("set default_transaction_read_only = on")
        run(conn, jobs.enqueue(SQL, [new("a")]))


def too_many(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("create role few login connection limit 0")
    try:
        psycopg.connect(make_conninfo(db.dsn, user="few"))
    finally:
        with db.connect() as conn:
            conn.execute("drop role few")


def idle_too_long(db: Database) -> None:
    with db.connect() as conn, db.connect() as look:
        conn.execute("set idle_in_transaction_session_timeout = '20ms'")
        conn.execute("begin")
        gone = "select count(*) from pg_stat_activity where pid = %s"
        eventually(lambda: look.execute(gone, [conn.info.backend_pid]).fetchone() == (0,))
        conn.execute("select 1")


def closed_by_us(db: Database) -> None:
    conn = db.connect()
    conn.close()
    conn.execute("select 1")


def nobody_listens(_: Database) -> None:
    psycopg.connect("host=127.0.0.1 port=1 user=x dbname=x connect_timeout=2")


def function_gone(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("drop function fencepost.promote_v1(int)")
        run(conn, jobs.promote(SQL, 1))


def schema_gone(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("drop schema fencepost cascade")
        run(conn, jobs.promote(SQL, 1))


def table_gone(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("drop table fencepost.running cascade")
        run(conn, jobs.mine(SQL, 1))


def column_gone(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("alter table fencepost.running rename run_count to runs")
        run(conn, jobs.mine(SQL, 1))


def forbidden(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("create role stranger")
        try:
            with conn.transaction(force_rollback=True):
                conn.execute("set local role stranger")
                run(conn, jobs.promote(SQL, 1))
        finally:
            conn.execute("drop role stranger")


def bad_json(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("select %s::jsonb", [r'"\u0000"'])


def too_big(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("select 99999::int2")


def unsendable(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("select %s::text", ["a\0b"])


def surrogate(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("select %s::text", ["\ud800"])


def syntax(db: Database) -> None:
    with db.connect() as conn:
        conn.execute("selec 1")


TABLE: list[tuple[Callable[[Database], None], str | None, bool, bool, type[FencepostError]]] = [
    # what happens          SQLSTATE  transient  reconnect  what a caller is told
    (terminated, "57P01", True, True, OutageError),
    (cancelled, "57014", True, False, OutageError),
    (lock_timeout, "55P03", True, False, OutageError),
    (serialization, "40001", True, False, OutageError),
    (deadlock, "40P01", True, False, OutageError),
    (read_only, "25006", True, True, OutageError),
    (too_many, None, True, True, OutageError),  # 53300, but libpq hands no code over for a refused connection
    (idle_too_long, "25P03", True, True, OutageError),
    (closed_by_us, None, True, True, OutageError),
    (nobody_listens, None, True, True, OutageError),
    (function_gone, "42883", False, False, SchemaError),
    (schema_gone, "3F000", False, False, SchemaError),
    (table_gone, "42P01", False, False, SchemaError),
    (column_gone, "42703", False, False, SchemaError),
    (forbidden, "42501", False, False, DatabaseError),
    (bad_json, "22P05", False, False, UsageError),
    (too_big, "22003", False, False, UsageError),
    (unsendable, None, False, False, UsageError),
    (surrogate, None, False, False, UsageError),
    (syntax, "42601", False, False, DatabaseError),
]


@pytest.mark.spec("W4")
@pytest.mark.parametrize(
    ("provoke", "state", "transient", "reconnect", "told"), TABLE, ids=lambda v: getattr(v, "__name__", None)
)
def test_an_error_is_what_its_code_says(
    database: Database,
    provoke: Callable[[Database], None],
    state: str | None,
    transient: bool,
    reconnect: bool,
    told: type[FencepostError],
) -> None:
    with pytest.raises(Exception) as caught:
        provoke(database)

    error = caught.value
    assert faults.sqlstate(error) == state
    assert (faults.is_transient(error), faults.needs_reconnect(error)) == (transient, reconnect)
    meaning = faults.translate(error)
    assert type(meaning) is told
    assert "\n" not in str(meaning)
    assert (f"({state})" in str(meaning)) == (state is not None)


def test_a_killed_postmaster_is_an_outage(own_server: Server) -> None:
    conn = psycopg.connect(own_server.dsn, autocommit=True)
    own_server.stop("immediate")

    with pytest.raises(psycopg.Error) as caught:
        conn.execute("select 1")

    assert (faults.is_transient(caught.value), faults.needs_reconnect(caught.value)) == (True, True)
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(own_server.dsn)
    assert faults.is_transient(refused.value)


def test_errors_of_ours_stay_what_they_are() -> None:
    ours = [UsageError("a"), LeaseLostError("b"), OutageError("c")]

    assert [faults.translate(error) for error in ours] == ours
    assert [faults.is_transient(error) for error in ours] == [False, False, True]
    assert [faults.is_transient(error) for error in (OSError("x"), ValueError("x"), KeyError("x"))] == [
        True,
        False,
        False,
    ]


@pytest.mark.spec("K1", "R8")
def test_an_explanation_is_one_short_line_without_secrets() -> None:
    shouted = psycopg.OperationalError("no\nconnection to postgresql://ann:hunter22@db/shop\n" + "x" * 5000)

    said = faults.explain(shouted)

    assert "hunter22" not in said
    assert "\n" not in said
    assert len(said) <= 400
