"""Whether the server is what the guarantees rest on, found out by what it does and says, not by a version check alone.

CockroachDB reports a PostgreSQL version of the day and answers SKIP LOCKED with rows that it may skip although nobody
holds them; multi-master extensions let two nodes claim one row. Such servers are refused with a reason. A standby, or a
primary that is read-only for the moment, is an outage: another host of the DSN, or patience, mends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from fencepost.errors import OutageError, UnsupportedDatabaseError
from fencepost.sql.catalog import Catalog
from fencepost.store import faults
from fencepost.store.connect import DeadlineConnection, open_connection
from fencepost.store.flow import Rows

OLDEST = 140_000

_LOOK_ALIKES = {
    "cockroachdb": "CockroachDB",
    "yugabyte": "YugabyteDB",
    "-yb-": "YugabyteDB",
    "dsql": "Aurora DSQL",
    "spanner": "Spanner",
    "materialize": "Materialize",
    "risingwave": "RisingWave",
    "greenplum": "Greenplum",
    "redshift": "Redshift",
    "cratedb": "CrateDB",
    "questdb": "QuestDB",
}
_MULTI_MASTER = {"bdr": "EDB Postgres Distributed", "spock": "pgEdge Spock"}
_PROOF_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What a server said of itself. ``number`` is server_version_num (150018)."""

    version: str
    number: int
    in_recovery: bool
    read_only: bool
    encoding: str
    has_plpgsql: bool
    extensions: Sequence[str]


def require(conn: psycopg.Connection[Any], sql: Catalog) -> Platform:
    """Look at the server at the other end and judge it.

    Raises UnsupportedDatabaseError with the reason for a server that fencepost cannot run on, OutageError for one that
    cannot be written to at the moment, and psycopg's errors.
    """
    version = str(ask(conn, sql, "platform/version")[0][0])
    refuse_by_name(version)
    try:
        number, in_recovery, read_only, encoding, has_plpgsql, extensions = ask(conn, sql, "platform/facts")[0]
    except psycopg.Error as error:
        if faults.is_transient(error):
            raise
        message = f"this server lacks what every PostgreSQL has ({faults.explain(error)}); use PostgreSQL 14 or newer"
        raise UnsupportedDatabaseError(message) from error
    found = Platform(
        version=version,
        number=number,
        in_recovery=in_recovery,
        read_only=read_only,
        encoding=encoding,
        has_plpgsql=has_plpgsql,
        extensions=extensions,
    )
    judge(found)
    return found


def refuse_by_name(version: str) -> None:
    """Raise UnsupportedDatabaseError for a server whose ``version()`` names a look-alike, or no PostgreSQL at all."""
    text = version.lower()
    for mark, name in _LOOK_ALIKES.items():
        if mark in text:
            message = (
                f"this is {name}, not PostgreSQL: its row locks do not carry fencepost's guarantees; use PostgreSQL"
            )
            raise UnsupportedDatabaseError(message)
    if not text.startswith("postgresql ") and "enterprisedb" not in text:
        message = f"this server calls itself {version[:60]!r}, not PostgreSQL; use PostgreSQL 14 or newer"
        raise UnsupportedDatabaseError(message)


def judge(found: Platform) -> None:
    """Raise for what cannot work, and OutageError for what cannot be written to now."""
    refuse_by_name(found.version)
    if found.number < OLDEST:
        message = f"PostgreSQL {found.number // 10_000} is too old: fencepost needs 14 or newer"
        raise UnsupportedDatabaseError(message)
    if not found.has_plpgsql:
        raise UnsupportedDatabaseError("the database has no PL/pgSQL, in which fencepost's functions are written")
    for extension in found.extensions:
        if extension in _MULTI_MASTER:
            message = (
                f"{_MULTI_MASTER[extension]} replicates this database between masters, so that two of them could claim "
                "one job; use a database that only one node writes"
            )
            raise UnsupportedDatabaseError(message)
    if found.encoding != "UTF8":
        message = (
            f"the database's encoding is {found.encoding}, which cannot hold every payload; "
            "create one with ENCODING 'UTF8' TEMPLATE template0"
        )
        raise UnsupportedDatabaseError(message)
    if found.in_recovery:
        message = (
            "this server is a standby and cannot be written to; name the primary, or all hosts and target_session_attrs"
        )
        raise OutageError(message)
    if found.read_only:
        message = (
            "this server is read-only (default_transaction_read_only, or it protects itself); it cannot be written to"
        )
        raise OutageError(message)


def is_direct(conn: DeadlineConnection, sql: Catalog) -> bool:
    """Whether the process that greeted this connection is the one that serves it: no pooler stands between."""
    conn.note_backend(int(ask(conn, sql, "platform/backend")[0][0]))
    return bool(conn.is_direct)


def is_transaction_pooled(conn: DeadlineConnection, dsn: str, sql: Catalog) -> bool:
    """Whether a pooler gives this connection's server process to others between transactions.

    Proof by behaviour: a second connection is served by the process that served the first, which is still open. A
    pooler in session mode never does that.
    """
    if is_direct(conn, sql):
        return False
    with open_connection(dsn, name="pooler check", deadline_s=conn.deadline_s or 10.0) as other:
        for _ in range(_PROOF_TRIES):
            if ask(conn, sql, "platform/backend") == ask(other, sql, "platform/backend"):
                return True
    return False


def ask(conn: psycopg.Connection[Any], sql: Catalog, name: str, params: dict[str, Any] | None = None) -> Rows:
    """Run one statement of the catalogue and fetch its rows, if it has any."""
    with conn.cursor(row_factory=psycopg.rows.tuple_row, binary=True) as cursor:
        cursor.execute(sql.statement(name).encode(), params)
        return cursor.fetchall() if cursor.description else []
