"""The worker's connection: blocking, for one thread, and every call on it ends in time.

    wire = Wire(dsn, deadline=5.0, name="pulse")
    answers = wire.run(jobs.beat(sql, fences))

It opens when it is first used and again after it broke. After `TooLate` what happened on the server is unknown: ask
the same again; the fence then answers ``already`` or ``lost``, or a lock timeout says that it is still in flight (the
server may hold a COMMIT that waits for a standby, with its row locks, after its socket is gone).

Isolation: every statement is a transaction of its own at READ COMMITTED. Where the default of the database or role is
another, a direct connection is set so once, when it opens; behind a pooler, where nothing may rely on session state,
each statement gets an explicit transaction (two more round trips, in that rare case only).

Statements are prepared on a direct connection only. A pooler is recognised by what it does: it greets with a process
number that is not the server's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

import psycopg
from psycopg import IsolationLevel

from fencepost.sql.catalog import Catalog
from fencepost.store import faults
from fencepost.store.connect import DeadlineConnection, TooLate, open_connection
from fencepost.store.flow import Flow, Rows, Stmt

__all__ = ["TooLate", "Wire"]

T = TypeVar("T")

READ_COMMITTED = "read committed"
_SQL = Catalog()  # the statements used here name no schema


class Wire:
    """One connection with a deadline.

    Args:
        dsn: the connection string; several hosts are tried in order, each for its share of the deadline.
        deadline: seconds that opening (at least 2 a host, as libpq has it) and each wait of a statement may take.
        name: shown in ``application_name``, after "fencepost".

    Only `sever` may be called from another thread.
    """

    def __init__(self, dsn: str, *, deadline: float, name: str) -> None:
        self._dsn, self._deadline, self._name = dsn, deadline, name
        self._conn: DeadlineConnection | None = None
        self._explicit = False
        self._unprepared = False

    def __repr__(self) -> str:
        return f"<Wire {self._name!r} {'open' if self.connected else 'closed'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """Whether there is a connection that is not known to be broken."""
        return self._conn is not None and not self._conn.closed

    @property
    def is_direct(self) -> bool | None:
        """Whether no pooler stands between; None while closed."""
        return None if self._conn is None else self._conn.is_direct

    def call(self, stmt: Stmt, meanwhile: Callable[[], None] | None = None) -> Rows:
        """Run one statement in a transaction of its own and fetch its rows.

        ``meanwhile`` is called while the server works, at most once, and perhaps not at all; it must not raise.
        Raises TooLate at the deadline and psycopg's errors otherwise. A connection that is of no use any more is
        closed, so that the next call opens a new one. A plan that a migration made stale, or a prepared statement that
        a pooler mislaid, was refused before anything ran: the call is made again on a new connection, once.
        """
        try:
            return self._once(stmt, meanwhile)
        except psycopg.Error as error:
            mislaid = faults.is_mislaid_statement(error)
            if not mislaid and not faults.is_stale_plan(error):
                raise
            self._unprepared = self._unprepared or mislaid
            self.close()
        return self._once(stmt, None)

    def run(self, flow: Flow[T], meanwhile: Callable[[], None] | None = None) -> T:
        """Drive a flow, each statement as `call`. Errors are thrown into the flow, which may translate them."""
        try:
            stmt = next(flow)
            while True:
                try:
                    rows = self.call(stmt, meanwhile)
                    meanwhile = None
                except Exception as error:  # noqa: BLE001 - the flow decides what it means
                    stmt = flow.throw(error)
                else:
                    stmt = flow.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result

    def close(self) -> None:
        """Close at once, asking nobody. The wire may be used again."""
        conn, self._conn = self._conn, None
        if conn is not None and not conn.closed:
            conn.sever()
            conn.close()

    def sever(self) -> None:
        """From any thread: break the connection under a call that waits, which then raises an outage."""
        conn = self._conn
        if conn is not None:
            conn.sever()

    def _once(self, stmt: Stmt, meanwhile: Callable[[], None] | None) -> Rows:
        conn = self._ready()
        conn.meanwhile = meanwhile
        try:
            if not self._explicit:
                return _execute(conn, stmt)
            with conn.transaction():
                return _execute(conn, stmt)
        except BaseException as error:
            if conn.closed or faults.needs_reconnect(error) or not isinstance(error, Exception):
                self.close()
            raise

    def _ready(self) -> DeadlineConnection:
        if self._conn is None or self._conn.closed:
            conn = open_connection(self._dsn, name=self._name, deadline_s=self._deadline)
            try:
                self._set_up(conn)
            except BaseException:
                conn.sever()
                conn.close()
                raise
            self._conn = conn
        return self._conn

    def _set_up(self, conn: DeadlineConnection) -> None:
        pid, isolation = _execute(conn, Stmt(_SQL.statement("wire/hello")))[0]
        conn.note_backend(pid)
        if conn.is_direct and not self._unprepared:
            conn.prepare_threshold = 1
        self._explicit = False
        if isolation == READ_COMMITTED:
            return
        if conn.is_direct:
            _execute(conn, Stmt(_SQL.statement("wire/read_committed")))
        else:
            conn.isolation_level = IsolationLevel.READ_COMMITTED
            self._explicit = True


def _execute(conn: DeadlineConnection, stmt: Stmt) -> Rows:
    # Binary answers: how a time is written as text is a setting of the database (DateStyle) that may be any.
    with conn.cursor(binary=True) as cursor:
        cursor.execute(stmt.sql.encode(), stmt.params or None)
        return cursor.fetchall() if cursor.description else []
