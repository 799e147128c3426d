"""Trouble that the server makes itself: errors of any code from any table, and settings that a DBA might choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

PLACES = ("ready", "delayed", "parked", "running", "outcome", "attempt", "carry", "worker", "leader")
"""The tables that workers and their leader write while jobs run."""


def refuse(conn: psycopg.Connection[Any], code: str, *, times: int, tables: Iterable[str] = PLACES) -> None:
    """From now on the first ``times`` writes to each of ``tables`` end with this SQLSTATE.

    Counted by a sequence, which a rollback does not set back. Each table counts for itself.
    """
    for table in tables:
        conn.execute(
            sql.SQL(
                """
                CREATE SEQUENCE {counter};
                CREATE FUNCTION {act}() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                  IF nextval({counter_name}) <= {times} THEN
                    RAISE EXCEPTION 'trouble made by a test' USING ERRCODE = {code};
                  END IF;
                  RETURN NULL;
                END $$;
                CREATE TRIGGER trouble BEFORE INSERT OR UPDATE OR DELETE ON {table}
                  FOR EACH STATEMENT EXECUTE FUNCTION {act}();
                """
            ).format(
                counter=sql.Identifier("public", f"trouble_{table}"),
                counter_name=sql.Literal(f"public.trouble_{table}"),
                act=sql.Identifier("public", f"make_trouble_{table}"),
                table=sql.Identifier("fencepost", table),
                times=sql.Literal(times),
                code=sql.Literal(code),
            )
        )


def refused(conn: psycopg.Connection[Any], table: str) -> int:
    """How many writes of ``table`` have met the trigger."""
    row = conn.execute(
        sql.SQL("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {}").format(
            sql.Identifier("public", f"trouble_{table}")
        )
    ).fetchone()
    assert row is not None
    return int(row[0])


def set_for_all(conn: psycopg.Connection[Any], **settings: str) -> None:
    """What later sessions of this database start with."""
    name = conn.info.dbname
    for setting, value in settings.items():
        conn.execute(
            sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                sql.Identifier(name), sql.Identifier(setting), sql.Literal(value)
            )
        )


@contextmanager
def server_setting(conn: psycopg.Connection[Any], name: str, value: str) -> Iterator[None]:
    """A setting of the whole server, also for the sessions that are there; set back at the end."""
    conn.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    conn.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        conn.execute("SET default_transaction_read_only = off")
        conn.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name)))
        conn.execute("SELECT pg_reload_conf()")


def ours(conn: psycopg.Connection[Any]) -> dict[int, str]:
    """Sessions of workers and leaders on this database: pid to what it is for."""
    rows = conn.execute(
        "SELECT pid, application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'fencepost %'"
    ).fetchall()
    return {int(pid): str(name) for pid, name in rows}
