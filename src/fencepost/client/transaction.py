"""What the caller's connection is, and whether a job can be enqueued in its transaction (SPEC Q1).

Refused, each with one sentence and before anything is sent: what is no psycopg 3 connection, a sync connection in an
async call and the reverse, a closed one, one that is busy, one whose transaction has failed, one in no transaction (on an
idle connection psycopg would open a transaction that nobody commits, or, in autocommit, commit at once), and one whose
client_encoding is SQL_ASCII: what was written could not be read back as text.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from fencepost.errors import UsageError

_HOW = "open one first: with conn.transaction(): ..."


def require_sync(tx: object) -> psycopg.Connection[Any]:
    """``tx`` as a sync connection inside a live transaction; UsageError otherwise."""
    if isinstance(tx, psycopg.AsyncConnection):
        message = "tx is an AsyncConnection: use 'await ....aenqueue(...)', or give enqueue(...) a psycopg.Connection"
        raise UsageError(message)
    if not isinstance(tx, psycopg.Connection):
        raise UsageError(_no_connection(tx))
    if not tx.closed and tx.pgconn.pipeline_status != PipelineStatus.OFF:
        with tx.pipeline():  # entering a nested pipeline synchronises: the status below is then the server's
            pass
    _require_transaction(tx)
    return tx


async def require_async(tx: object) -> psycopg.AsyncConnection[Any]:
    """``tx`` as an async connection inside a live transaction; UsageError otherwise."""
    if isinstance(tx, psycopg.Connection):
        message = "tx is a sync Connection: use 'enqueue(...)', or give aenqueue(...) a psycopg.AsyncConnection"
        raise UsageError(message)
    if not isinstance(tx, psycopg.AsyncConnection):
        raise UsageError(_no_connection(tx))
    if not tx.closed and tx.pgconn.pipeline_status != PipelineStatus.OFF:
        async with tx.pipeline():
            pass
    _require_transaction(tx)
    return tx


def _require_transaction(tx: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if tx.closed:
        message = "tx is a closed connection, so its transaction is over; nothing was enqueued"
        raise UsageError(message)
    status = tx.info.transaction_status
    if status == TransactionStatus.IDLE:
        message = f"tx is not in a transaction; {_HOW}, or leave tx out and the job is committed at once"
        raise UsageError(message)
    if status == TransactionStatus.INERROR:
        message = "the transaction of tx has failed already and can only be rolled back; nothing was enqueued"
        raise UsageError(message)
    if status != TransactionStatus.INTRANS:
        message = "tx is busy with another statement (a COPY, or another thread); finish that before enqueuing"
        raise UsageError(message)
    if tx.pgconn.parameter_status(b"client_encoding") == b"SQL_ASCII":
        message = "the connection's client_encoding is SQL_ASCII, which has no text; use UTF8; nothing was enqueued"
        raise UsageError(message)


def _no_connection(tx: object) -> str:
    kind = type(tx)
    named = f"{kind.__module__}.{kind.__qualname__}"
    said = f"tx must be a psycopg.Connection or AsyncConnection inside a transaction, not {named}"
    if isinstance(tx, psycopg.Cursor | psycopg.AsyncCursor):
        return f"{said}; give its connection: tx=cursor.connection"
    return f"{said}; on other drivers call the SQL function fencepost.enqueue(...) in the transaction"
