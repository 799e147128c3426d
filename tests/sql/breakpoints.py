"""Stops a session inside a function of the schema, at a line that the function marks.

    with breakpoints.stopped("settle.moved", "select * from fencepost.settle_v1(...)") as call:
        ...                                          # the other session's move, while the first stands there
    assert call.rows == ...                          # released, and ended

The test build turns the marked comment into a call of ``breakpoint(name)``, which waits for an advisory lock if its own
session has armed that name; the controlling connection holds the lock until the block ends. Sessions that may stand at the
same line have names of their own (``fencepost.break_as``), and so locks of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg

from fencepost.sql.catalog import Catalog
from waiting import eventually

_FUNCTION = b"""
create or replace function fencepost.breakpoint(p_name text) returns void language plpgsql set lock_timeout = 0 as $$
declare
  v_key int := hashtext(p_name || ' ' || coalesce(current_setting('fencepost.break_as', true), ''));
begin
  if current_setting('fencepost.break', true) = p_name then
    perform set_config('fencepost.break', '', false);
    perform pg_advisory_lock(v_key);
    perform pg_advisory_unlock(v_key);
  end if;
end $$
"""


class Call:
    """One statement on a connection and a thread of its own."""

    def __init__(self, dsn: str, query: str, name: str) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.error: psycopg.Error | None = None
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._conn.execute("select set_config('fencepost.break', %s, false)", (name,))
        self.pid = self._conn.info.backend_pid
        self._thread = threading.Thread(target=self._run, args=(query,), daemon=True)
        self._thread.start()

    def _run(self, query: str) -> None:
        try:
            self.rows = self._conn.execute(query.encode()).fetchall()
        except psycopg.Error as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive(), "the stopped call did not end"
        self._conn.close()


class Other:
    """A third party: begins a statement that will have to wait for somebody's lock."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def begin(self, query: str) -> None:
        self._call = Call(self._dsn, query, "")

    def waits(self) -> bool:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            return bool(conn.execute("select pg_blocking_pids(%s) <> '{}'", (self._call.pid,)).fetchone() == (True,))

    def end(self) -> list[tuple[Any, ...]]:
        """The rows, once it has ended; its error is raised."""
        self._call.join()
        if self._call.error is not None:
            raise self._call.error
        return self._call.rows


class Breakpoints:
    """A database whose functions can be stopped, with a connection for the other party."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @staticmethod
    def install(conn: psycopg.Connection[Any]) -> None:
        """Write the test build of every function."""
        conn.execute(_FUNCTION)
        with conn.transaction():
            for file in Catalog(breakpoints=True).functions():
                conn.execute(file.text.encode())

    def __enter__(self) -> Self:
        self.conn = psycopg.connect(self.dsn, autocommit=True)
        self._holder = psycopg.connect(self.dsn, autocommit=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.conn.close()
        self._holder.close()

    def ask(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        """Rows, on the other party's connection."""
        cursor = self.conn.execute(query.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def stopped(self, name: str, query: str) -> Iterator[Call]:
        """Run ``query`` until it stands at the breakpoint; release it at the end of the block and wait for its end."""
        self._holder.execute("select pg_advisory_lock(hashtext(%s))", (f"{name} ",))
        call = Call(self.dsn, query, name)
        try:
            eventually(lambda: call.error is not None or self._waits(call.pid), within=5)
            assert call.error is None, call.error
            yield call
        finally:
            self._holder.execute("select pg_advisory_unlock(hashtext(%s))", (f"{name} ",))
            call.join()

    def _waits(self, pid: int) -> bool:
        rows = self._holder.execute(
            "select 1 from pg_locks where pid = %s and locktype = 'advisory' and not granted", (pid,)
        ).fetchall()
        return bool(rows)
