"""Look-alikes and poolers: the decision on what servers say of themselves, and what poolers do (SPEC, embedded.md 3)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from fencepost.errors import OutageError, UnsupportedDatabaseError
from fencepost.store import platform
from fencepost.store.connect import open_connection
from pooler import pooler
from servers import Database
from store.hands import SQL

GOOD = platform.Platform(
    version="PostgreSQL 17.2 on x86_64-pc-linux-gnu, compiled by gcc",
    number=170002,
    in_recovery=False,
    read_only=False,
    encoding="UTF8",
    has_plpgsql=True,
    extensions=("plpgsql", "pg_stat_statements", "timescaledb"),
)

SAYS = {
    "CockroachDB": "CockroachDB CCL v26.1.0 (x86_64-pc-linux-gnu, built 2026/02/02 12:00:00, go1.25)",
    "YugabyteDB": "PostgreSQL 15.12-YB-2025.2.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang",
    "Aurora DSQL": "PostgreSQL 16 (Aurora DSQL)",
    "Spanner": "PostgreSQL 14.1 (Cloud Spanner)",
    "Materialize": "PostgreSQL 9.5.0 on x86_64-unknown-linux-gnu (materialized v0.130)",
    "RisingWave": "PostgreSQL 13.14.0-RisingWave-2.1.0 (abcd)",
    "Greenplum": "PostgreSQL 12.12 (Greenplum Database 7.1.0)",
    "Redshift": "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.77467",
}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_a_look_alike_is_refused_by_what_it_calls_itself(name: str) -> None:
    with pytest.raises(UnsupportedDatabaseError, match=f"this is {name}, not PostgreSQL"):
        platform.judge(replace(GOOD, version=SAYS[name]))


def test_a_server_that_is_nothing_we_know_is_refused() -> None:
    with pytest.raises(UnsupportedDatabaseError, match="calls itself 'DuckDB v1.4', not PostgreSQL"):
        platform.judge(replace(GOOD, version="DuckDB v1.4"))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (replace(GOOD, number=130021), "PostgreSQL 13 is too old: fencepost needs 14 or newer"),
        (replace(GOOD, number=90624), "PostgreSQL 9 is too old"),
        (replace(GOOD, encoding="SQL_ASCII"), "encoding is SQL_ASCII"),
        (replace(GOOD, has_plpgsql=False), "no PL/pgSQL"),
        (replace(GOOD, extensions=("plpgsql", "spock")), "pgEdge Spock .* one job"),
        (replace(GOOD, extensions=("bdr",)), "EDB Postgres Distributed"),
    ],
)
def test_what_the_guarantees_need_is_missed_with_a_reason(found: platform.Platform, sentence: str) -> None:
    with pytest.raises(UnsupportedDatabaseError, match=sentence) as caught:
        platform.judge(found)

    assert caught.value.exit_code == 4


@pytest.mark.spec("W4")
@pytest.mark.parametrize(
    "found",
    [replace(GOOD, in_recovery=True, read_only=True), replace(GOOD, read_only=True)],
    ids=["standby", "read-only"],
)
def test_a_server_that_cannot_be_written_to_now_is_no_verdict(found: platform.Platform) -> None:
    with pytest.raises(OutageError, match="cannot be written to"):
        platform.judge(found)


@pytest.mark.parametrize(
    "version",
    [
        "PostgreSQL 18.6 on x86_64-pc-linux-musl, compiled by gcc",
        "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu",
        "PostgreSQL 16.4 on aarch64-unknown-linux-gnu, compiled by aarch64-unknown-linux-gnu-gcc (GCC) 9.5.0, 64-bit",
        "PostgreSQL 17.4 (EnterpriseDB Advanced Server 17.4.0) on x86_64-pc-linux-gnu",
    ],
)
def test_postgres_by_any_packager_passes(version: str) -> None:
    platform.judge(replace(GOOD, version=version))


def test_every_postgres_of_this_machine_passes(each_version: Database) -> None:
    with each_version.connect() as conn:
        found = platform.require(conn, SQL)

    assert found.number >= platform.OLDEST
    assert found.version.startswith("PostgreSQL ")


def require_as_outsider(conn: psycopg.Connection[Any]) -> None:
    """The question, asked by a role that may see little."""
    conn.execute("set local role outsider")
    with conn.transaction():
        platform.require(conn, SQL)


def test_a_server_that_lacks_what_every_postgres_has_is_refused(database: Database) -> None:
    """A look-alike with an honest face: it fails at the first question about its insides."""
    with database.connect() as conn:
        conn.execute("revoke execute on function pg_catalog.pg_is_in_recovery() from public")
        conn.execute("create role outsider")
        try:
            with (
                conn.transaction(force_rollback=True),
                pytest.raises(UnsupportedDatabaseError, match="lacks what every"),
            ):
                require_as_outsider(conn)
        finally:
            conn.execute("drop role outsider")


def test_a_pooler_is_recognised_by_what_it_does(database: Database) -> None:
    with ExitStack() as stack:
        between = stack.enter_context(pooler(database.dsn, server_connections=2))
        direct = stack.enter_context(open_connection(database.dsn, name="t", deadline_s=5))
        pooled = stack.enter_context(open_connection(between.dsn, name="t", deadline_s=5))

        assert platform.is_direct(direct, SQL)
        assert not platform.is_transaction_pooled(direct, database.dsn, SQL)
        assert not platform.is_direct(pooled, SQL)
        assert platform.is_transaction_pooled(pooled, between.dsn, SQL)


def test_a_pooler_that_keeps_a_server_for_each_session_is_not_taken_for_one_that_shares(database: Database) -> None:
    class Greeted:
        backend_pid = 1  # the pooler's own number

    with open_connection(database.dsn, name="t", deadline_s=5) as conn:
        conn.note_backend(conn.info.backend_pid + 1)

        assert conn.is_direct is False
        assert isinstance(conn, psycopg.Connection)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(platform, "is_direct", lambda *_: False)
            assert not platform.is_transaction_pooled(conn, database.dsn, SQL)
