"""The client's own connections: every call on them ends in time, and every transaction is READ COMMITTED.

psycopg has one seam through which each wait for the server goes (`Connection.wait`); the deadline is checked there, so
that neither a watchdog thread nor a cancel request is needed. When it passes, the *socket* is shut: a cancelled COMMIT
that waits for a standby would answer success, and a frozen server answers nothing. What happened on the server is then
unknown.

Nothing relies on session state and nothing is prepared by name, so that a pooler in transaction mode may sit between.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from fencepost.errors import OutageError
from fencepost.sql.catalog import Catalog
from fencepost.store import lenient

V = TypeVar("V")

DEADLINE_S = 30.0
CONNECT_S = 10

READ_COMMITTED = "read committed"


class BoundedConnection(psycopg.Connection[Any]):
    """A sync connection whose statements end within ``deadline_s``, by closing the socket."""

    deadline_s: float = DEADLINE_S
    plain: bool = True
    """Whether a lone statement may go without BEGIN and COMMIT: the database's default isolation is READ COMMITTED."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait as psycopg does, but not for ever. Raises OutageError at the deadline; the connection is then closed."""
        return super().wait(_bounded(gen, self), interval=interval, timeout=timeout)


class AsyncBoundedConnection(psycopg.AsyncConnection[Any]):
    """The same, awaited."""

    deadline_s: float = DEADLINE_S
    plain: bool = True

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Wait as psycopg does, but not for ever."""
        return await super().wait(_bounded(gen, self), interval=interval, timeout=timeout)


Own = BoundedConnection | AsyncBoundedConnection


def connect(dsn: str, sql: Catalog, *, name: str, deadline_s: float = DEADLINE_S) -> BoundedConnection:
    """Open a connection of ours. Raises psycopg.OperationalError as psycopg does."""
    conn = BoundedConnection.connect(dsn, autocommit=True, prepare_threshold=None, **_extra(dsn, name))
    try:
        conn.deadline_s = deadline_s
        lenient.adopt(conn)
        conn.isolation_level = IsolationLevel.READ_COMMITTED
        found = conn.execute(sql.statement("client/isolation")).fetchone()
        conn.plain = found is not None and found[0] == READ_COMMITTED
    except BaseException:
        conn.close()
        raise
    return conn


async def aconnect(dsn: str, sql: Catalog, *, name: str, deadline_s: float = DEADLINE_S) -> AsyncBoundedConnection:
    """`connect`, awaited."""
    conn = await AsyncBoundedConnection.connect(dsn, autocommit=True, prepare_threshold=None, **_extra(dsn, name))
    try:
        conn.deadline_s = deadline_s
        lenient.adopt(conn)
        await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
        found = await (await conn.execute(sql.statement("client/isolation"))).fetchone()
        conn.plain = found is not None and found[0] == READ_COMMITTED
    except BaseException:
        await conn.close()
        raise
    return conn


def usable(conn: Own) -> bool:
    """Whether the connection is open, idle, and the server has not hung up meanwhile."""
    if conn.closed or conn.info.transaction_status != TransactionStatus.IDLE:
        return False
    try:
        look = select.poll()
        look.register(conn.fileno(), select.POLLIN)
        return not look.poll(
            0
        )  # an idle connection has nothing to say: readable means end of file or a notice of the end
    except (OSError, psycopg.Error):
        return False


def _extra(dsn: str, name: str) -> dict[str, Any]:
    given = conninfo_to_dict(dsn)
    extra: dict[str, Any] = {}
    if "application_name" not in given:
        extra["application_name"] = f"fencepost {name}"[:63]
    if "connect_timeout" not in given:
        extra["connect_timeout"] = CONNECT_S
    return extra


def _bounded(gen: Generator[Any, Any, V], conn: Own) -> Generator[Any, Any, V]:
    ends = time.monotonic() + conn.deadline_s
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= ends:
                _sever(conn)
                message = (
                    f"the database gave no answer within {conn.deadline_s:g} s; whether the call took effect is unknown"
                )
                raise OutageError(message)
            wanted = gen.send(ready)
    except StopIteration as end:
        result: V = end.value
        return result


def _sever(conn: Own) -> None:
    """Shut the stream below libpq and finish the handle: asks nobody's permission and sends nothing."""
    with contextlib.suppress(OSError, psycopg.Error):
        sock = socket.socket(fileno=os.dup(conn.fileno()))
        with sock:
            sock.shutdown(socket.SHUT_RDWR)
    conn.pgconn.finish()
