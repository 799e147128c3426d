"""Commits that hang: every one waits for a standby that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg

from waiting import eventually


@contextmanager
def commits_wait(dsn: str) -> Iterator[psycopg.Connection[object]]:
    """From here to the end no commit of anybody is answered, but those of the session that is given.

    It is the checkpointer that tells the other processes to wait, whenever it has read its settings: SHOW is no proof.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET synchronous_commit = local")
        try:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            conn.execute("SELECT pg_reload_conf()")
            eventually(lambda: _waits(conn))
            yield conn
        finally:
            conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
            conn.execute("SELECT pg_reload_conf()")
            eventually(lambda: _says(conn, "SHOW synchronous_standby_names") == "")


def _waits(conn: psycopg.Connection[object]) -> bool:
    """Whether a commit that has something to write waits just now."""
    with closing(psycopg.connect(conn.info.dsn, autocommit=True)) as probe:
        probe.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'probe', '')")
        where = f"FROM pg_stat_activity WHERE pid = {probe.info.backend_pid}"
        eventually(lambda: _says(conn, f"SELECT state = 'idle' OR wait_event = 'SyncRep' {where}"))
        waits = _says(conn, f"SELECT wait_event = 'SyncRep' {where}")
        conn.execute("SELECT pg_cancel_backend(%s)", [probe.info.backend_pid])
    return waits is True


def _says(conn: psycopg.Connection[object], query: str) -> object:
    row = conn.execute(query.encode()).fetchone()
    assert isinstance(row, tuple)
    return row[0]
