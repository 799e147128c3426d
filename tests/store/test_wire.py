"""The wire: calls that end in time, connections that mend themselves, isolation and preparation that are what they say.

Catalogue and traps: worker.md 2 "Client deadline", 3.12, 3.17; review B1, B4, B11.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from commits import commits_wait
from fencepost.domain.job import ClaimedJob
from fencepost.errors import OutageError, UsageError
from fencepost.store import faults, jobs, schema
from fencepost.store.flow import Stmt
from fencepost.store.wire import TooLate, Wire
from pooler import pooler
from servers import Database, Server, server
from store.hands import SQL, TOKEN, claim, enqueue, new, settle, wire_driver
from waiting import eventually

ONE = Stmt("select 1")


def pid_of(wire: Wire) -> int:
    return int(wire.call(Stmt("select pg_backend_pid()"))[0][0])


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The server process stands still; a frozen server answers nothing and ends nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.spec("C5", "W4")
def test_a_call_to_a_frozen_server_process_ends_in_time_and_the_next_one_works(database: Database) -> None:
    wire = Wire(database.dsn, deadline=0.4, name="test")
    pid = pid_of(wire)

    with frozen(pid):
        begun = time.monotonic()
        with pytest.raises(TooLate, match="whether the call took effect is unknown"):
            wire.call(ONE)
        took = time.monotonic() - begun
        assert not wire.connected
        assert wire.call(ONE) == [(1,)]
        assert pid_of(wire) != pid

    assert 0.35 < took < 1.5
    wire.close()


@pytest.mark.spec("W4")
def test_a_silent_host_ends_the_attempt_to_connect(database: Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        wire = Wire(f"host=127.0.0.1 port={silent.getsockname()[1]} user=x dbname=x", deadline=2.0, name="test")
        begun = time.monotonic()

        with pytest.raises(psycopg.OperationalError) as caught:
            wire.call(ONE)

        assert time.monotonic() - begun < 4.0
        assert faults.is_transient(caught.value)


def test_a_host_that_is_away_is_passed_over(database: Database) -> None:
    where = conninfo_to_dict(database.dsn)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = gone.getsockname()[1]
    dsn = make_conninfo(database.dsn, host=f"127.0.0.1,{where['host']}", port=f"{closed},{where.get('port', 5432)}")
    wire = Wire(dsn, deadline=5.0, name="test")

    assert wire.call(ONE) == [(1,)]
    wire.close()


@pytest.mark.spec("C3", "W6")
def test_a_commit_that_waits_for_a_standby_ends_in_time_and_its_outcome_is_already_there() -> None:
    """Trap 3.12: the socket is closed, the commit is not; while it waits the row is locked, afterwards it is settled."""
    with server(settings={"fsync": "off"}) as made, Wire(made.dsn, deadline=1.0, name="test") as wire:
        database = Database(made.dsn, SQL, made)
        schema.migrate(made.dsn, SQL)
        enqueue(wire, new("a"))
        claimed = claim(wire)
        with commits_wait(database.dsn):
            begun = time.monotonic()
            with pytest.raises(TooLate):
                settle(wire, claimed)
            took = time.monotonic() - begun
            inside = [settle(wire, claimed, again=True)[claimed[0].id].answer for _ in range(20)]
            waiting = waiting_commits(database)

        answer = eventually(lambda: said(wire, claimed), within=10)

    assert took < 2.5
    assert inside == ["busy"] * 20  # in flight: neither lost nor written anew
    assert waiting == 1  # and none of the repetitions waits on a connection of its own
    assert answer == jobs.Settled("already", "succeeded")


def said(wire: Wire, claimed: list[ClaimedJob]) -> jobs.Settled | None:
    answer = settle(wire, claimed, again=True)[claimed[0].id]
    return answer if answer.answer != "busy" else None


def waiting_commits(database: Database) -> int:
    with database.connect() as conn:
        row = conn.execute("select count(*) from pg_stat_activity where wait_event = 'SyncRep'").fetchone()
        assert row is not None
        return int(row[0])


@pytest.mark.spec("W4")
def test_a_killed_server_process_costs_one_call(database: Database, wire: Wire) -> None:
    with database.connect() as conn:
        conn.execute("select pg_terminate_backend(%s)", [pid_of(wire)])

    with pytest.raises(psycopg.Error) as caught:
        wire.call(ONE)

    assert caught.value.sqlstate == "57P01"
    assert faults.is_transient(caught.value)
    assert faults.needs_reconnect(caught.value)
    assert not wire.connected
    assert wire.call(ONE) == [(1,)]


def test_a_server_that_became_read_only_is_left_for_another_one(database: Database, wire: Wire) -> None:
    """A failover with several hosts in the DSN: the old primary refuses writes, the next connection finds the new one."""
    enqueue(wire, new("a"))
    with database.connect() as conn:
        conn.execute("set default_transaction_read_only = off")
        conn.execute(f"alter database {conn.info.dbname} set default_transaction_read_only = on".encode())
        wire.close()

        with pytest.raises(psycopg.Error) as caught:
            enqueue(wire, new("b"))

        assert (caught.value.sqlstate, faults.is_transient(caught.value)) == ("25006", True)
        assert not wire.connected
        conn.execute(f"alter database {conn.info.dbname} reset default_transaction_read_only".encode())
    assert enqueue(wire, new("b"))[0].is_new


def test_an_error_of_the_statement_keeps_the_connection(wire: Wire) -> None:
    pid = pid_of(wire)

    with pytest.raises(psycopg.errors.DivisionByZero):
        wire.call(Stmt("select 1/0"))

    assert pid_of(wire) == pid


@pytest.mark.spec("Q11")
@pytest.mark.parametrize("default", ["serializable", "repeatable read"])
def test_transactions_are_read_committed_whatever_the_database_says(database: Database, default: str) -> None:
    """Review B4."""
    with database.connect() as conn:
        conn.execute(f"alter database {conn.info.dbname} set default_transaction_isolation = '{default}'".encode())
    with pooler(database.dsn) as between, wire_driver(database.dsn) as direct, wire_driver(between.dsn) as pooled:
        for wire in (direct, pooled):
            assert wire.call(Stmt("select current_setting('transaction_isolation')")) == [("read committed",)]
            assert enqueue(wire, new()) != []

        assert [direct.is_direct, pooled.is_direct] == [True, False]
        with closing(psycopg.connect(between.dsn, autocommit=True)) as other:
            assert other.execute("show default_transaction_isolation").fetchone() == (default,)


def test_statements_are_prepared_on_a_direct_connection_only(database: Database) -> None:
    prepared = Stmt("select count(*) from pg_prepared_statements where statement like 'select id, answer%%'")
    with ExitStack() as stack:
        between = stack.enter_context(pooler(database.dsn, server_connections=2))
        direct = stack.enter_context(wire_driver(database.dsn))
        pooled = [stack.enter_context(wire_driver(between.dsn)) for _ in range(3)]

        for wire in [direct, *pooled]:
            enqueue(wire, *(new() for _ in range(5)))
        for _ in range(5):
            for wire in [direct, *pooled]:
                settle(wire, claim(wire, 1))

        assert direct.call(prepared)[0][0] > 0
        assert [wire.call(prepared)[0][0] for wire in pooled] == [0, 0, 0]


def test_a_pooler_that_passes_for_the_server_is_unmasked_by_the_first_mislaid_statement(database: Database) -> None:
    """It forwards the greeting's process number, but swaps the server underneath: the wire stops preparing."""
    wire = wire_driver(database.dsn)
    again = Stmt("select 'once more'")
    for _ in range(3):
        wire.call(again)
    wire.call(Stmt("do $$ begin execute 'deallocate all'; end $$"))  # what a swapped server connection looks like

    assert wire.call(again) == [("once more",)]

    for _ in range(3):
        wire.call(again)
    assert wire.call(Stmt("select count(*) from pg_prepared_statements")) == [(0,)]
    wire.close()


def test_a_plan_that_a_migration_made_stale_is_made_again(database: Database, wire: Wire) -> None:
    """Review B11: 0A000 "cached plan must not change result type"."""
    with database.connect() as conn:
        conn.execute("create table shape (a int)")
        conn.execute("insert into shape values (1)")
        look = Stmt("select * from shape")
        assert [wire.call(look) for _ in range(3)] == [[(1,)]] * 3
        conn.execute("alter table shape add b text default 'new'")

    assert wire.call(look) == [(1, "new")]


def test_another_thread_can_break_a_call_that_waits(database: Database) -> None:
    wire = Wire(database.dsn, deadline=30.0, name="test")
    pid = pid_of(wire)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            wire.call(Stmt("select pg_sleep(30)"))
        except psycopg.Error as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    with database.connect() as conn:
        busy = "select state = 'active' from pg_stat_activity where pid = %s"
        eventually(lambda: conn.execute(busy, [pid]).fetchone() == (True,))
        wire.sever()
        thread.join(5)
        conn.execute("select pg_terminate_backend(%s)", [pid])

    assert [faults.is_transient(error) for error in ended] == [True]
    assert not wire.connected


@contextmanager
def interrupted_when(database: Database, pid: int) -> Iterator[None]:
    """SIGINT for this process as soon as the server process sleeps, sent by a thread of its own."""

    def interrupt() -> None:
        with database.connect() as conn:
            asleep = "select wait_event = 'PgSleep' from pg_stat_activity where pid = %s"
            eventually(lambda: conn.execute(asleep, [pid]).fetchone() == (True,))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@contextmanager
def deaf_to(number: signal.Signals) -> Iterator[None]:
    """This thread's system calls are not interrupted; another thread of the process takes the signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def test_an_interrupted_call_sends_no_cancel_and_gives_the_connection_up(database: Database, wire: Wire) -> None:
    """Trap 3.17: psycopg cancels on KeyboardInterrupt; a cancelled COMMIT that waits for a standby would be "done"."""
    pid = pid_of(wire)

    with interrupted_when(database, pid), pytest.raises(KeyboardInterrupt):
        wire.call(Stmt("select pg_sleep(20)"))

    assert not wire.connected
    with database.connect() as conn:  # it was not cancelled: it sleeps on, and hears of nobody
        assert conn.execute("select state from pg_stat_activity where pid = %s", [pid]).fetchone() == ("active",)
        conn.execute("select pg_terminate_backend(%s)", [pid])


def test_a_signal_that_interrupts_no_system_call_is_heard_long_before_the_deadline(database: Database) -> None:
    """It came between Python's last look and the wait; here: another thread takes it, and the waiting one sleeps on."""
    with Wire(database.dsn, deadline=30, name="test") as wire:
        pid = pid_of(wire)
        begun = time.monotonic()

        with interrupted_when(database, pid), deaf_to(signal.SIGINT), pytest.raises(KeyboardInterrupt):
            wire.call(Stmt("select pg_sleep(20)"))

        assert time.monotonic() - begun < 10
        with database.connect() as conn:
            conn.execute("select pg_terminate_backend(%s)", [pid])


def test_the_connection_names_its_use_and_the_users_own_name_wins(database: Database) -> None:
    show = Stmt("select current_setting('application_name')")
    ours, theirs = wire_driver(database.dsn), wire_driver(make_conninfo(database.dsn, application_name="shop"))

    assert [ours.call(show), theirs.call(show)] == [[("fencepost test",)], [("shop",)]]
    ours.close()
    theirs.close()


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "dsn", ["postgresql://ann:hunter22@[::1/db", "host=x password=hunter22 nonsense", "://hunter22"]
)
def test_a_dsn_that_cannot_be_read_is_never_shown(dsn: str) -> None:
    with pytest.raises(UsageError) as caught:
        wire_driver(dsn).call(ONE)

    assert "hunter22" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.spec("K1")
def test_a_refused_password_is_not_in_the_explanation(server: Server) -> None:
    dsn = make_conninfo(server.dsn, user="nobody_of_that_name", password="hunter22")
    wire = wire_driver(dsn)

    with pytest.raises(psycopg.OperationalError) as caught:
        wire.call(ONE)

    assert isinstance(faults.translate(caught.value), OutageError)
    assert "hunter22" not in faults.explain(caught.value)
    assert "hunter22" not in repr(wire)


def test_leases_survive_an_outage_that_the_wire_sat_out(database: Database) -> None:
    wire = Wire(database.dsn, deadline=0.3, name="test")
    enqueue(wire, new("a"))
    job = claim(wire)[0]
    with frozen(pid_of(wire)), pytest.raises(TooLate):
        wire.run(jobs.mine(SQL, TOKEN))

    assert [(f.id, f.run_count) for f in wire.run(jobs.mine(SQL, TOKEN)) or ()] == [(job.id, job.run_count)]
    wire.close()
