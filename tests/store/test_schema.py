"""Migrations: by two at once, under load, killed anywhere, printed, compared (SPEC A4; review B11, B12)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fencepost.errors import FencepostError, OutageError, SchemaError, UnsupportedDatabaseError, UsageError
from fencepost.sql.catalog import Catalog, SqlFile
from fencepost.store import migrator, schema
from fencepost.store.schema import check, migrate, plan_sql, verify
from fencepost.testing.proxy import proxy
from pooler import pooler
from servers import Database
from store.hands import SQL, claim, enqueue, new, settle, wire_driver
from store.migrating import Migrators, shape, start, with_files
from waiting import eventually

Conn = psycopg.Connection[Any]


@contextmanager
def writer(database: Database, table: str = "job") -> Iterator[Conn]:
    """A transaction that has written to a table and stays open."""
    with database.connect() as conn:
        conn.execute("begin")
        conn.execute(f"lock table fencepost.{table} in row exclusive mode".encode())
        conn.execute("select pg_current_xact_id()")
        yield conn
        conn.execute("rollback")


@pytest.mark.spec("A4")
def test_a_fresh_database_is_migrated_step_by_step_and_then_left_alone(empty_database: Database) -> None:
    said: list[str] = []
    with empty_database.connect() as conn:
        assert check(conn, SQL).state == "missing"

        first = migrate(empty_database.dsn, SQL, progress=said.append)
        second = migrate(empty_database.dsn, SQL, progress=said.append)

        assert first.applied == tuple(file.name for file in SQL.migrations())
        assert first.functions == len(SQL.functions())
        assert second == schema.MigrateReport()
        assert said[: len(first.applied)] == [f"applying {name}" for name in first.applied]
        assert len(said) == len(first.applied) + 1
        report = verify(conn, SQL)
        assert (report.state, report.is_current, report.names) == ("current", True, ())


@pytest.mark.spec("A4")
def test_another_schema_name_works_beside_the_first(database: Database) -> None:
    for name in ("jobs_2", "jobs_3"):
        migrate(database.dsn, Catalog(name))

    with database.connect() as conn:
        assert shape(conn, "jobs_2") == shape(conn, "jobs_3")
        assert len(shape(conn, "jobs_2")) == len(shape(conn))
        assert conn.execute("select (jobs_2.enqueue('t')).answer").fetchone() == ("created",)
        assert conn.execute("select count(*) from fencepost.job").fetchone() == (0,)


@pytest.mark.spec("A4")
def test_two_migrators_at_once_do_the_work_once(empty_database: Database) -> None:
    running = [start(empty_database.dsn, "fencepost") for _ in range(3)]

    said = [process.communicate(timeout=60)[0] for process in running]

    assert [process.returncode for process in running] == [0, 0, 0], said
    assert sorted(text.count("applying 0001_tables") for text in said) == [0, 0, 1]
    assert sorted(text.count("writing") for text in said) == [0, 0, 1]
    with empty_database.connect() as conn:
        assert check(conn, SQL).state == "current"


@pytest.mark.spec("A4")
def test_a_migrator_that_waits_its_turn_does_not_stop_an_index_build(database: Database, migrators: Migrators) -> None:
    """Review B11: a session that waits in pg_advisory_lock deadlocks with the other's CREATE INDEX CONCURRENTLY."""
    with database.connect() as conn:
        conn.execute("drop index fencepost.job_tags")
        with writer(database):
            first = start(database.dsn, "fencepost")
            building = (
                "select count(*) from pg_stat_activity where query ilike 'create index%%' and wait_event_type = 'Lock'"
            )
            eventually(lambda: conn.execute(building).fetchone() == (1,))
            second = start(database.dsn, "fencepost")
            assert second.stdout is not None
            assert second.stdout.readline() == "another migration is running; waiting for it\n"

        assert [p.wait(30) for p in (first, second)] == [0, 0]
        for process in (first, second):
            process.communicate()
        assert check(conn, SQL).state == "current"


@pytest.mark.spec("A4")
def test_an_open_writer_delays_a_migration_and_is_not_made_to_queue(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock on the table is asked for briefly and again; between the tries other writers pass."""
    monkeypatch.setattr(migrator, "LOCK_TIMEOUT", "50ms")
    migrate(empty_database.dsn, SQL)
    later = with_files(SqlFile("0009_later", "alter table fencepost.job add column later int", {"phase": "expand"}))
    said: list[str] = []

    with writer(empty_database) as first, empty_database.connect() as other:

        def hear(line: str) -> None:
            said.append(line)
            if line.startswith("waiting for a lock"):
                other.execute("select fencepost.enqueue('t')")
                first.execute("rollback")

        report = migrate(empty_database.dsn, later, progress=hear)

    assert report.applied == ("0009_later",)
    assert "waiting for a lock on 0009_later that another transaction holds" in said


@pytest.mark.spec("A4")
def test_a_lock_that_is_never_given_ends_with_a_sentence(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrator, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(migrator, "LOCK_PATIENCE_S", 0.3)
    later = with_files(SqlFile("0009_later", "alter table fencepost.job add column later int", {"phase": "expand"}))

    with writer(database), pytest.raises(OutageError, match=r"0009_later has been locked by others .* run this again"):
        migrate(database.dsn, later)


@pytest.mark.spec("A4")
def test_what_could_not_be_applied_is_not_on_record(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends a migration in the middle: the next one finds the file not done, and does it."""
    monkeypatch.setattr(migrator, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(migrator, "LOCK_PATIENCE_S", 0.1)
    later = with_files(SqlFile("0009_later", "alter table fencepost.job add column later int", {"phase": "expand"}))
    with writer(database), pytest.raises(OutageError):
        migrate(database.dsn, later)

    again = migrate(database.dsn, later)

    assert again.applied == ("0009_later",)
    with database.connect() as conn:
        conn.execute("select later from fencepost.job")


@pytest.mark.spec("A4")
def test_an_index_build_that_was_cut_off_is_found_and_done_again(database: Database) -> None:
    with database.connect() as conn:
        wanted = shape(conn)
        conn.execute("drop index fencepost.job_tags")
        with writer(database):
            process = start(database.dsn, "fencepost")
            building = (
                "select pid from pg_stat_activity where query ilike 'create index%%' and wait_event_type = 'Lock'"
            )
            (pid,) = eventually(lambda: conn.execute(building).fetchone()) or (None,)
            conn.execute("select pg_terminate_backend(%s)", [pid])
            process.communicate(timeout=20)
        cut = check(conn, SQL)

        report = migrate(database.dsn, SQL)

        assert process.returncode != 0
        assert (cut.state, cut.names, cut.is_usable, cut.is_current) == ("invalid index", ("job_tags",), True, False)
        assert report.rebuilt == ("job_tags",)
        assert shape(conn) == wanted


@pytest.mark.spec("A4")
def test_an_index_that_somebody_dropped_is_missed_and_put_back(database: Database) -> None:
    """Also one that was made together with its table: without it every claim would sort."""
    with database.connect() as conn:
        wanted = shape(conn)
        conn.execute("drop index fencepost.ready_claim, fencepost.parked_key, fencepost.job_tags")
        lost = check(conn, SQL)
        assert (lost.state, lost.is_usable, lost.is_current) == ("missing index", True, False)
        assert lost.names == ("ready_claim", "parked_key", "job_tags")
        assert lost.sentence == (
            "schema fencepost has lost indexes (ready_claim, parked_key, job_tags): run fencepost migrate"
        )

        report = migrate(database.dsn, SQL)

        assert report == schema.MigrateReport(rebuilt=lost.names)
        assert shape(conn) == wanted
        assert verify(conn, SQL).state == "current"


@pytest.mark.spec("A4")
def test_every_index_of_the_schema_is_known_with_the_statement_that_builds_it(database: Database) -> None:
    indexes = (
        "select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid left join pg_constraint k "
        "on k.conindid = c.oid where c.relnamespace = 'fencepost'::regnamespace and k.oid is null"
    )
    with database.connect() as conn:
        there = {row[0] for row in conn.execute(indexes).fetchall()}

    assert set(migrator.own_indexes(SQL.migrations())) == there
    assert all(migrator._INDEX.match(build) for build in migrator.own_indexes(SQL.migrations()).values())


@pytest.mark.spec("A4")
def test_an_index_of_the_first_tables_that_is_invalid_is_built_again(database: Database) -> None:
    """Left by an earlier try to put it back that was cut off."""
    with database.connect() as conn:
        wanted = shape(conn)
        conn.execute("update pg_index set indisvalid = false where indexrelid = 'fencepost.ready_claim'::regclass")
        assert check(conn, SQL).names == ("ready_claim",)

        assert migrate(database.dsn, SQL).rebuilt == ("ready_claim",)

        assert shape(conn) == wanted


@pytest.mark.spec("A4")
def test_an_invalid_index_of_somebody_else_is_named_and_left_alone(database: Database) -> None:
    """What a REINDEX CONCURRENTLY that was cut off leaves behind."""
    with database.connect() as conn:
        conn.execute("create index ready_claim_ccnew on fencepost.ready (id)")
        conn.execute(
            "update pg_index set indisvalid = false where indexrelid = 'fencepost.ready_claim_ccnew'::regclass"
        )
        before = shape(conn)

        assert migrate(database.dsn, SQL) == schema.MigrateReport()

        report = verify(conn, SQL)
        assert (report.state, report.names) == ("current", ())
        assert report.sentence.endswith("cut off that was not fencepost's: drop ready_claim_ccnew")
        assert shape(conn) == before


@pytest.mark.spec("A4")
def test_a_function_that_is_gone_is_missed_and_put_back_with_its_settings(database: Database) -> None:
    with database.connect() as conn:
        wanted = shape(conn)
        conn.execute("drop function fencepost.lead_v1, fencepost._purge")
        lost = check(conn, SQL)
        assert (lost.is_usable, lost.is_current, lost.names) == (False, False, ("_purge", "lead_v1"))
        with pytest.raises(SchemaError, match=r"has lost functions \(_purge, lead_v1\): run fencepost migrate"):
            verify(conn, SQL)

        assert migrate(database.dsn, SQL).functions == len(SQL.functions())

        assert shape(conn) == wanted
        assert verify(conn, SQL).state == "current"


def test_an_index_that_was_built_beforehand_is_kept(empty_database: Database) -> None:
    first = with_files(*SQL.migrations()[:1], only=True)
    migrate(empty_database.dsn, first)
    with empty_database.connect() as conn:
        conn.execute("create index job_tags on fencepost.job using gin (tags) where tags is not null")
        before = conn.execute("select 'fencepost.job_tags'::regclass::oid").fetchone()

        migrate(empty_database.dsn, SQL)

        assert conn.execute("select 'fencepost.job_tags'::regclass::oid").fetchone() == before


def test_a_long_index_build_says_that_it_waits(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.store import connect

    monkeypatch.setattr(connect, "_TICK_S", 0.1)
    monkeypatch.setattr(connect, "_GLANCE_S", 0.1)
    said: list[str] = []
    with database.connect() as conn:
        conn.execute("drop index fencepost.job_tags")
    with writer(database) as held:

        def hear(line: str) -> None:
            said.append(line)
            if line.startswith("index job_tags: create has run"):
                held.execute("rollback")

        migrate(database.dsn, SQL, progress=hear)

    assert any(line.startswith("index job_tags: create has run for 0 s") for line in said)


@pytest.mark.spec("A4")
def test_what_is_printed_builds_what_is_migrated(database: Database, empty_database: Database, tmp_path: Path) -> None:
    run_as_psql(plan_sql(SQL), empty_database, tmp_path)

    with database.connect() as migrated, empty_database.connect() as printed:
        assert shape(printed) == shape(migrated)
        assert check(printed, SQL).state == "current"
    assert migrate(empty_database.dsn, SQL) == schema.MigrateReport()


def run_as_psql(text: str, database: Database, folder: Path) -> None:
    """By psql where there is one; else statement by statement, as psql sends them."""
    program = shutil.which("psql")
    if program is not None:
        (folder / "plan.sql").write_text(text)
        done = subprocess.run(
            [program, "-q", "-d", database.dsn, "-f", folder / "plan.sql"], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "ERROR" not in done.stderr
        return
    with database.connect() as conn:
        for statement in statements_of(text):
            conn.execute(statement.encode())


def statements_of(text: str) -> list[str]:
    """Cut at semicolons that are outside dollar quotes and comments."""
    found, current, quote = [], "", None
    lines = [line for line in text.splitlines() if not line.startswith("\\")]
    for piece in re.split(r"(\$\w*\$|;|--[^\n]*)", "\n".join(lines)):
        if quote is None and piece.startswith("--"):
            continue
        if re.fullmatch(r"\$\w*\$", piece):
            quote = piece if quote is None else None if piece == quote else quote
        if piece == ";" and quote is None:
            found.append(current)
            current = ""
        else:
            current += piece
    return [statement for statement in found if statement.strip()]


def test_the_statement_cutter_knows_dollar_quotes() -> None:
    assert statements_of("a;\n-- no; \nb $$ x; $q$ y; $$;\\set\n\\c;\nd;") == ["a", "\n\nb $$ x; $q$ y; $$", "\\set\nd"]


# ---------------------------------------------------------------------------------------------------- comparing


def test_an_older_schema_is_refused_by_a_worker_with_the_command(database: Database) -> None:
    newer = with_files(SqlFile("0009_later", "select 1", {"phase": "expand"}))

    with (
        database.connect() as conn,
        pytest.raises(SchemaError, match=r"0009_later is missing\): run fencepost migrate"),
    ):
        verify(conn, newer)


def test_a_contract_step_that_waits_for_the_old_workers_stops_nobody(database: Database) -> None:
    newer = with_files(SqlFile("0009_drop", "select 1", {"phase": "contract"}))

    assert migrate(database.dsn, newer, expand_only=True).left == ("0009_drop",)

    with database.connect() as conn:
        assert verify(conn, newer).state == "current"
        assert migrate(database.dsn, newer).applied == ("0009_drop",)


def test_a_newer_schema_is_allowed_with_a_warning_unless_it_says_that_it_breaks(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    harmless = SqlFile("0009_more", "select 1", {"phase": "expand", "breaking": "no"})
    migrate(database.dsn, with_files(harmless))
    with database.connect() as conn:
        conn.execute("drop index fencepost.job_tags")  # as a later release may
        assert verify(conn, SQL).state == "newer"
        assert ["newer than this program, which can go on" in line for line in caplog.messages] == [True]
        assert migrate(database.dsn, SQL) == schema.MigrateReport()  # the older release changes nothing

        migrate(database.dsn, with_files(harmless, SqlFile("0010_break", "select 1", {"breaking": "yes"})))
        with pytest.raises(SchemaError, match=r"too new for this program \(0010_break breaks older programs\)"):
            verify(conn, SQL)


def test_a_later_release_keeps_its_functions_when_an_earlier_one_migrates(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.connect() as conn:
        conn.execute("update fencepost.migration set program = '99.0', checksum = 'other' where name = 'claim_v1'")

        assert migrate(database.dsn, SQL).functions == 0
        assert verify(conn, SQL).state == "newer"
        conn.execute("drop function fencepost.gate_limit_v1")
        with pytest.raises(SchemaError, match="no longer has gate_limit_v1"):
            verify(conn, SQL)


def test_changed_functions_are_written_anew_with_their_settings(database: Database) -> None:
    with database.connect() as conn:
        wanted = shape(conn)
        conn.execute("create or replace function fencepost.resign_v1(p_name text, p_token bigint) returns boolean "
                     "language sql as 'select false'")  # fmt: skip
        conn.execute("alter function fencepost.claim_v1 reset all")
        conn.execute("update fencepost.migration set checksum = 'old' where name = 'resign_v1'")
        conn.execute("insert into fencepost.migration select 'gone_v0', kind, phase, breaking, 'x', program, now() "
                     "from fencepost.migration where name = 'resign_v1'")  # fmt: skip
        with pytest.raises(
            SchemaError, match=r"older functions than this program \(resign_v1\): run fencepost migrate"
        ):
            verify(conn, SQL)

        assert migrate(database.dsn, SQL).functions == len(SQL.functions())

        assert shape(conn) == wanted


@pytest.mark.spec("A4")
def test_a_function_of_somebody_else_in_the_same_schema_is_left_as_it_is(empty_database: Database) -> None:
    """Its rights, its settings, and that it has the name of one of ours; and its owner need not be ours."""
    theirs = (
        "select proname, proconfig, proacl, xmin::text from pg_proc where pronamespace = 'public'::regnamespace "
        "and (proname, pronargs) in (('my_orders', 0), ('enqueue', 1))"
    )
    bare = (
        "select proname from pg_proc where pronamespace = 'public'::regnamespace and proname like '%%\\_v1' "
        "and (proconfig is null or proacl is null)"
    )
    with empty_database.connect() as conn:
        conn.execute("create function public.my_orders() returns int language sql as 'select 1'")
        conn.execute("create function public.enqueue(int) returns int language sql as 'select 1'")
        before = conn.execute(theirs).fetchall()

        migrate(empty_database.dsn, Catalog("public"))

        assert len(before) == 2
        assert conn.execute(theirs).fetchall() == before
        assert conn.execute(bare).fetchall() == []


@pytest.mark.spec("A4")
def test_settings_that_would_reach_no_function_are_refused(database: Database) -> None:
    """Written one by one, as a client with a savepoint for each statement would: loud, and nothing is half done."""
    (settings,) = [file for file in SQL.functions() if file.name == "zz_settings"]

    with database.connect() as conn, pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="savepoints"):
        conn.execute(settings.text.encode())


def test_an_applied_file_that_changed_is_refused_before_anything_is_done(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("update fencepost.migration set checksum = 'other' where name = '0001_tables'")
        more = with_files(SqlFile("0009_later", "select 1", {}))

        with pytest.raises(SchemaError, match="0001_tables was applied to schema fencepost with another text"):
            migrate(database.dsn, more)
        with pytest.raises(SchemaError, match="an applied migration never changes"):
            verify(conn, SQL)
        assert conn.execute("select count(*) from fencepost.migration where name = '0009_later'").fetchone() == (0,)


def test_workers_of_this_release_go_on_while_their_functions_are_written_anew(database: Database) -> None:
    with wire_driver(database.dsn) as wire:
        enqueue(wire, *(new() for _ in range(8)))
        for _ in range(4):
            settle(wire, claim(wire, 1))
        with database.connect() as conn:
            conn.execute("update fencepost.migration set checksum = 'old' where name = 'claim_v1'")
        migrate(database.dsn, SQL)

        assert [settle(wire, claim(wire, 1)) for _ in range(4)] != []
        assert claim(wire) == []


def test_a_worker_without_a_schema_gets_one_line(empty_database: Database) -> None:
    with empty_database.connect() as conn, pytest.raises(SchemaError) as caught:
        verify(conn, SQL)

    assert str(caught.value) == "schema fencepost is not there: run fencepost migrate"
    assert caught.value.exit_code == 3


# ------------------------------------------------------------------------------------------------- who and where


def test_through_a_transaction_pooler_a_migration_is_refused_and_the_way_out_is_named(empty_database: Database) -> None:
    with pooler(empty_database.dsn, server_connections=2) as between:
        with pytest.raises(UsageError, match="set FENCEPOST_DIRECT_DSN"):
            migrate(between.dsn, SQL)
        with closing(psycopg.connect(between.dsn, autocommit=True)) as conn:
            assert check(conn, SQL).state == "missing"  # reading is all right


def test_a_role_that_may_not_create_is_told_so(empty_database: Database) -> None:
    with empty_database.connect() as conn:
        name = f"poor_{os.getpid()}"
        conn.execute(f"create role {name} login".encode())
        try:
            with pytest.raises(FencepostError, match=r"may not do that.*42501"):
                migrate(make_conninfo(empty_database.dsn, user=name), SQL)
            conn.execute(f"create schema fencepost authorization {name}".encode())  # made for it: enough
            assert migrate(make_conninfo(empty_database.dsn, user=name), SQL).applied
        finally:
            conn.execute(f"drop owned by {name} cascade".encode())
            conn.execute(f"drop role {name}".encode())


def test_a_database_that_is_not_utf8_is_refused_before_anything_is_made(empty_database: Database) -> None:
    name = f"latin_{os.getpid()}"
    with empty_database.connect() as conn:
        conn.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0".encode())
        try:
            dsn = make_conninfo(empty_database.dsn, dbname=name)
            with pytest.raises(UnsupportedDatabaseError, match="encoding is LATIN1.*ENCODING 'UTF8'"):
                migrate(dsn, SQL)
            with closing(psycopg.connect(dsn, autocommit=True)) as look:
                assert check(look, SQL).state == "missing"
        finally:
            conn.execute(f"drop database {name} with (force)".encode())


def test_a_server_that_cannot_be_written_to_is_an_outage(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("set default_transaction_read_only = on")

        with pytest.raises(OutageError, match="read-only"):
            verify(conn, SQL)


def test_no_server_is_an_outage() -> None:
    with pytest.raises(OutageError):
        migrate("host=127.0.0.1 port=1 user=x dbname=x", SQL)


@pytest.mark.spec("A4", "W4")
def test_a_server_that_falls_silent_ends_a_migration_with_a_sentence(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of its work, behind a network that acknowledges everything: the next run finishes."""
    monkeypatch.setattr(schema, "DEADLINE_S", 1.5)
    with proxy(empty_database.dsn) as between:

        def hear(line: str) -> None:
            if line.startswith("writing"):
                between.hold()

        with pytest.raises(OutageError, match=r"no answer within 1\.5 s"):
            migrate(between.dsn, SQL, progress=hear)
        between.release()
        with empty_database.connect() as conn:
            eventually(
                lambda: conn.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone() == (0,)
            )

    assert migrate(empty_database.dsn, SQL).functions == len(SQL.functions())


@pytest.mark.spec("A4")
def test_an_index_build_may_last_longer_than_any_deadline(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for transactions that began before it; and its socket is probed while it does."""
    from fencepost.store import connect

    monkeypatch.setattr(schema, "DEADLINE_S", 1.5)
    monkeypatch.setattr(connect, "_TICK_S", 0.5)
    with database.connect() as conn:
        conn.execute("drop index fencepost.job_tags")
    with writer(database) as held:

        def hear(line: str) -> None:
            if line.startswith("index job_tags: create has run for 3 s"):
                held.execute("rollback")

        assert migrate(database.dsn, SQL, progress=hear).rebuilt == ("job_tags",)


def test_a_socket_is_probed_as_the_dsn_wishes_and_otherwise_soon(database: Database) -> None:
    from fencepost.store.connect import open_connection

    def probing(dsn: str) -> tuple[str, str]:
        with open_connection(dsn, name="test", deadline_s=7.0) as conn:
            given = conn.info.get_parameters()
            return given["keepalives_idle"], given["tcp_user_timeout"]

    assert probing(database.dsn) == ("30", "7000")
    assert probing(f"{database.dsn} keepalives_idle=5 tcp_user_timeout=9000") == ("5", "9000")


def test_every_file_says_what_it_is() -> None:
    """Numbered, with phase, breaking and transaction; index builds alone in files outside transactions."""
    names = [file.name for file in SQL.migrations()]

    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    for file in SQL.migrations():
        assert file.header.get("phase") in {"expand", "contract"}, file.name
        assert file.header.get("breaking") in {"yes", "no"}, file.name
        assert file.header.get("transaction") in {"yes", "no"}, file.name
        concurrently = "concurrently" in re.sub(r"--.*", "", file.text).lower()
        assert concurrently is (not file.in_transaction), file.name
        if not file.in_transaction:
            builds = [migrator._INDEX.match(statement) for statement in file.statements()]
            assert all(builds), f"{file.name}: only DROP and CREATE INDEX CONCURRENTLY IF (NOT) EXISTS"
            pairs = [(found[1].upper(), found[2]) for found in builds if found]
            drops, creates = pairs[::2], pairs[1::2]
            assert [(verb, "DROP") for verb, _ in drops] == [("DROP", "DROP")] * len(drops)
            assert [name for _, name in drops] == [name for _, name in creates]
