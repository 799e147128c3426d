"""The two functions that run a flow on a psycopg connection: the caller's or ours, in or out of a transaction.

The cursor is psycopg's plain one, whatever ``cursor_factory`` the caller's connection has: a RawCursor knows no named
parameters, and a ClientCursor would write the values into the statement.
"""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg

from fencepost.store.flow import Flow, Rows

T = TypeVar("T")


def run(conn: psycopg.Connection[Any], flow: Flow[T], *, binary: bool = False) -> T:
    """Drive ``flow`` on a sync connection. Database errors are thrown into the flow, which may translate them.

    ``binary`` for answers with times, which as text are in whatever DateStyle the database has.
    """
    try:
        stmt = next(flow)
        while True:
            try:
                with psycopg.Cursor(conn, row_factory=psycopg.rows.tuple_row) as cursor:
                    cursor.execute(stmt.sql, stmt.params, binary=binary)
                    rows: Rows = cursor.fetchall() if _answers(cursor) else []
            except Exception as error:  # noqa: BLE001 - the flow decides what it means
                stmt = flow.throw(error)
            else:
                stmt = flow.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


async def arun(conn: psycopg.AsyncConnection[Any], flow: Flow[T], *, binary: bool = False) -> T:
    """Drive ``flow`` on an async connection; the same text, awaited."""
    try:
        stmt = next(flow)
        while True:
            try:
                async with psycopg.AsyncCursor(conn, row_factory=psycopg.rows.tuple_row) as cursor:
                    await cursor.execute(stmt.sql, stmt.params, binary=binary)
                    rows: Rows = await cursor.fetchall() if _answers(cursor) else []
            except Exception as error:  # noqa: BLE001 - the flow decides what it means
                stmt = flow.throw(error)
            else:
                stmt = flow.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def _answers(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """Whether there are rows to fetch. In the caller's pipeline the answer is still on its way: fetching waits for it."""
    return cursor.pgresult is None or cursor.description is not None
