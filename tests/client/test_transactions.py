"""A job inside the caller's own transaction: it exists exactly if that transaction commits (SPEC Q1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from client.shop import FIRST, Shop
from fencepost import Answer, App
from fencepost.client import batch
from fencepost.errors import SchemaError, UsageError
from servers import Database
from waiting import eventually


class Undo(Exception):
    """Leaves a block on purpose."""


@pytest.mark.spec("Q1")
def test_a_commit_publishes_the_job_and_nobody_sees_it_before(shop: Shop) -> None:
    """TXN-1."""
    with shop.tx() as conn:
        conn.execute("create table orders (id int)")

        answer = shop.receipt.using(tx=conn, job_id="receipt:7").enqueue(order_id=7)
        assert answer.status is Answer.CREATED
        assert shop.count() == 0
        conn.commit()

    assert shop.job_ids() == ["receipt:7"]
    assert shop.payload("receipt:7") == {"order_id": 7}
    assert shop.is_consistent()


@pytest.mark.spec("Q1")
def test_a_rollback_leaves_neither_the_order_nor_the_job_and_frees_the_id(shop: Shop) -> None:
    """TXN-1: the id and the key are free again at once."""
    shop.ask("create table orders (id int)")

    with suppress(Undo), shop.tx() as conn:
        conn.execute("insert into orders values (7)")
        shop.receipt.using(tx=conn, job_id="receipt:7", unique_key="order:7").enqueue(order_id=7)
        raise Undo

    assert shop.count() == 0
    assert shop.ask("select * from orders") == []
    assert shop.receipt.using(job_id="receipt:7", unique_key="order:7").enqueue(order_id=7).status is Answer.CREATED


@pytest.mark.spec("Q1")
def test_a_savepoint_takes_its_own_job_away_and_no_other(shop: Shop) -> None:
    with shop.tx() as conn:
        shop.receipt.using(tx=conn, job_id="before").enqueue(1)
        with conn.transaction():
            shop.receipt.using(tx=conn, job_id="kept").enqueue(2)
        with suppress(Undo), conn.transaction():
            shop.receipt.using(tx=conn, job_id="undone", unique_key="k").enqueue(3)
            raise Undo
        shop.receipt.using(tx=conn, job_id="after", unique_key="k").enqueue(4)

    assert shop.job_ids() == ["before", "kept", "after"]
    assert shop.is_consistent()


@pytest.mark.spec("Q1")
def test_async_commit_rollback_and_savepoints_are_the_same(shop: Shop) -> None:
    async def story() -> None:
        async with await shop.atx() as conn:
            await shop.receipt.using(tx=conn, job_id="gone").aenqueue(1)
            await conn.rollback()

            await conn.execute(FIRST)
            await shop.receipt.using(tx=conn, job_id="before").aenqueue(2)
            async with conn.transaction():
                await shop.receipt.using(tx=conn, job_id="kept").aenqueue(3)
            with suppress(Undo):
                async with conn.transaction():
                    await shop.receipt.using(tx=conn, job_id="undone").aenqueue(4)
                    raise Undo
            assert shop.count() == 0
            await conn.commit()

    asyncio.run(story())

    assert shop.job_ids() == ["before", "kept"]


@pytest.mark.spec("Q1")
@pytest.mark.parametrize("commits", [True, False])
def test_an_autocommit_connection_counts_inside_its_own_block(shop: Shop, commits: bool) -> None:
    with shop.database.connect() as conn, suppress(Undo), conn.transaction():
        shop.receipt.using(tx=conn).enqueue(1)
        if not commits:
            raise Undo

    assert shop.count() == (1 if commits else 0)


@pytest.mark.spec("Q1")
def test_two_jobs_of_one_transaction_know_each_other(shop: Shop) -> None:
    """Read one's own writes: the second enqueue meets the first, which nobody else sees yet."""
    with shop.tx() as conn:
        first = shop.receipt.using(tx=conn, job_id="a", unique_key="k").enqueue(1)
        again = shop.receipt.using(tx=conn, job_id="a", unique_key="k").enqueue(1)
        other = shop.receipt.using(tx=conn, job_id="b", unique_key="k").enqueue(1)

    assert [first.status, again.status, other.status] == [Answer.CREATED, Answer.EXISTS, Answer.SKIPPED]
    assert (other.holder, other.id) == ("a", first.id)
    assert shop.job_ids() == ["a"]


@pytest.mark.spec("Q1")
@pytest.mark.parametrize(
    "option",
    [
        {"row_factory": dict_row},
        {"options": "-c TimeZone=Asia/Kolkata -c search_path="},
        {"options": "-c array_nulls=off"},
    ],
)
def test_the_callers_settings_are_the_callers_and_stay(shop: Shop, option: dict[str, Any]) -> None:
    """TMZ-1: no row factory, time zone or search path of the caller changes what is stored, and none is changed."""
    with psycopg.connect(shop.dsn, **option) as conn:
        before = conn.execute("select current_setting('TimeZone'), current_setting('search_path')").fetchone()

        answer = shop.receipt.using(tx=conn, job_id="a", delay=60).enqueue(1)

        after = conn.execute("select current_setting('TimeZone'), current_setting('search_path')").fetchone()
    assert answer.status is Answer.CREATED
    assert after == before
    assert shop.one("select run_at - created_at between '50 s' and '70 s' from fencepost.job")


@pytest.mark.spec("Q1", "Q11")
def test_in_a_pipeline_the_answer_is_waited_for(shop: Shop) -> None:
    with shop.tx() as conn, conn.pipeline():
        conn.execute("create table orders (id int)")
        undone = shop.receipt.using(tx=conn).enqueue(1)
        conn.rollback()
        conn.execute(FIRST)
        kept = shop.app.enqueue_many([shop.receipt.using(job_id=x).new(1) for x in "aba"], tx=conn)

    assert undone.status is Answer.CREATED
    assert [(one.job_id, one.status) for one in kept] == [
        ("a", Answer.CREATED),
        ("b", Answer.CREATED),
        ("a", Answer.EXISTS),
    ]
    assert sorted(shop.job_ids()) == ["a", "b"]


@pytest.mark.spec("Q1")
def test_in_an_async_pipeline_too_and_a_refusal_is_raised_where_it_belongs(
    shop: Shop, empty_database: Database
) -> None:
    async def story() -> None:
        async with await shop.atx() as conn, conn.pipeline():
            answer = await shop.receipt.using(tx=conn, job_id="a").aenqueue(1)
            assert answer.status is Answer.CREATED
            await conn.commit()
        async with await psycopg.AsyncConnection.connect(empty_database.dsn) as conn, conn.pipeline():
            await conn.execute(FIRST)
            with pytest.raises(SchemaError):
                await shop.receipt.using(tx=conn).aenqueue(1)
            await conn.rollback()

    asyncio.run(story())

    assert shop.job_ids() == ["a"]


@pytest.mark.spec("Q1", "Q11")
def test_a_repeatable_read_caller_that_missed_a_competitor_gets_40001_and_no_second_job(shop: Shop) -> None:
    """TXN-3: PostgreSQL's own error reaches the caller's own retry loop, as the driver's class."""
    with psycopg.connect(shop.dsn) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select 1 from fencepost.job")
        shop.receipt.using(job_id="a").enqueue(1)

        with pytest.raises(psycopg.errors.SerializationFailure):
            shop.receipt.using(tx=conn, job_id="a").enqueue(1)
        conn.rollback()
        conn.execute(FIRST)
        answer = shop.receipt.using(tx=conn, job_id="a").enqueue(1)

    assert answer.status is Answer.EXISTS
    assert shop.job_ids() == ["a"]


@pytest.mark.spec("Q1")
def test_what_postgresql_refuses_in_the_callers_transaction_is_the_drivers_error(shop: Shop) -> None:
    with psycopg.connect(shop.dsn) as conn:
        conn.read_only = True
        conn.execute(FIRST)

        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            shop.receipt.using(tx=conn).enqueue(1)

    assert shop.count() == 0


# ------------------------------------------------------------------------------- what is no transaction to enqueue in


@pytest.fixture
def conn(shop: Shop) -> Iterator[psycopg.Connection[Any]]:
    """In an open transaction."""
    made = shop.tx()
    yield made
    made.close()


@pytest.mark.spec("Q1")
@pytest.mark.parametrize("autocommit", [True, False])
def test_a_connection_in_no_transaction_is_refused_before_anything_is_sent(shop: Shop, autocommit: bool) -> None:
    """Otherwise: committed at once, or never. Neither is what ``tx=`` promises."""
    with psycopg.connect(shop.dsn, autocommit=autocommit) as conn:
        with pytest.raises(UsageError, match=r"tx is not in a transaction; open one first: with conn\.transaction"):
            shop.receipt.using(tx=conn).enqueue(1)

        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert shop.count() == 0


@pytest.mark.spec("Q1")
def test_a_transaction_that_has_failed_is_refused_and_left_as_it_is(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    """InFailedSqlTransaction would name the wrong statement: ours, not the one that failed."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("select 1 / 0")

    with pytest.raises(UsageError, match="transaction of tx has failed already and can only be rolled back"):
        shop.receipt.using(tx=conn).enqueue(1)

    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    conn.rollback()
    conn.execute(FIRST)
    assert shop.receipt.using(tx=conn).enqueue(1).is_new


@pytest.mark.spec("Q1")
def test_a_closed_connection_is_refused(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    conn.close()

    with pytest.raises(UsageError, match="tx is a closed connection, so its transaction is over; nothing was enqueued"):
        shop.receipt.using(tx=conn).enqueue(1)


@pytest.mark.spec("Q1")
def test_a_connection_that_the_server_has_ended_loses_the_whole_transaction_loudly(
    shop: Shop, conn: psycopg.Connection[Any]
) -> None:
    """No silent retry on another connection: that would enqueue outside the caller's transaction."""
    shop.receipt.using(tx=conn, job_id="first").enqueue(1)
    pid = conn.info.backend_pid
    shop.ask("select pg_terminate_backend(%s)", pid)
    eventually(lambda: not shop.ask("select 1 from pg_stat_activity where pid = %s", pid))

    with pytest.raises(psycopg.OperationalError):
        shop.receipt.using(tx=conn, job_id="second").enqueue(2)

    assert shop.count() == 0


@pytest.mark.spec("Q1")
def test_a_connection_busy_with_a_copy_is_refused(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    conn.execute("create table lines (n int)")
    with conn.cursor().copy("copy lines from stdin") as copy:
        copy.write_row((1,))

        with pytest.raises(UsageError, match="tx is busy with another statement"):
            shop.receipt.using(tx=conn).enqueue(1)

    assert shop.count() == 0


@pytest.mark.spec("Q1")
@pytest.mark.parametrize("tx", ["postgresql:///shop", 7, object(), True], ids=["a DSN", "number", "object", "True"])
def test_what_is_no_connection_is_named_and_the_way_out_is_said(shop: Shop, tx: Any) -> None:
    async def awaited() -> None:
        await shop.receipt.using(tx=tx).aenqueue(1)

    said = (
        rf"tx must be a psycopg.Connection or AsyncConnection inside a transaction, not builtins\.{type(tx).__name__}"
    )

    with pytest.raises(UsageError, match=f"{said}; on other drivers call the SQL function"):
        shop.receipt.using(tx=tx).enqueue(1)
    with pytest.raises(UsageError, match=f"{said}; on other drivers call the SQL function"):
        asyncio.run(awaited())

    assert shop.count() == 0


@pytest.mark.spec("Q1")
def test_a_cursor_is_told_to_give_its_connection(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    cursor = conn.execute(FIRST)

    with pytest.raises(UsageError, match=r"not psycopg\.Cursor; give its connection: tx=cursor\.connection"):
        shop.receipt.using(tx=cursor).enqueue(1)  # type: ignore[arg-type]

    assert shop.receipt.using(tx=cursor.connection).enqueue(1).is_new


@pytest.mark.spec("Q1")
def test_sync_and_async_connections_are_not_confused(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    async def crosswise() -> None:
        async with await shop.atx() as other:
            with pytest.raises(UsageError, match="tx is an AsyncConnection: use 'await"):
                shop.receipt.using(tx=other).enqueue(1)
        with pytest.raises(UsageError, match="tx is a sync Connection: use 'enqueue"):
            await shop.receipt.using(tx=conn).aenqueue(1)

    asyncio.run(crosswise())

    assert shop.count() == 0


@pytest.mark.spec("Q1")
def test_async_refusals_are_the_same_sentences(shop: Shop) -> None:
    async def refused() -> None:
        conn = await shop.atx()
        await conn.commit()
        with pytest.raises(UsageError, match="tx is not in a transaction"):
            await shop.receipt.using(tx=conn).aenqueue(1)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await conn.execute("select 1 / 0")
        with pytest.raises(UsageError, match="has failed already"):
            await shop.receipt.using(tx=conn).aenqueue(1)
        await conn.close()
        with pytest.raises(UsageError, match="tx is a closed connection"):
            await shop.receipt.using(tx=conn).aenqueue(1)

    asyncio.run(refused())

    assert shop.count() == 0


@pytest.mark.spec("Q1")
def test_a_database_without_the_schema_is_told_so_with_the_command(shop: Shop, empty_database: Database) -> None:
    async def elsewhere() -> None:
        async with await psycopg.AsyncConnection.connect(empty_database.dsn) as conn:
            await conn.execute(FIRST)
            with pytest.raises(SchemaError, match="run fencepost migrate"):
                await shop.receipt.using(tx=conn).aenqueue(1)

    with psycopg.connect(empty_database.dsn) as conn:
        conn.execute(FIRST)
        with pytest.raises(SchemaError, match="fencepost's schema is missing.*run fencepost migrate") as caught:
            shop.receipt.using(tx=conn).enqueue(1)
    asyncio.run(elsewhere())

    assert caught.value.exit_code == 3
    assert shop.count() == 0


@pytest.mark.spec("Q1")
def test_a_savepoint_saves_the_callers_transaction_from_a_missing_schema(empty_database: Database) -> None:
    send = App().task("receipt.send")(lambda: None)

    with psycopg.connect(empty_database.dsn) as conn:
        conn.execute("create table orders (id int)")
        with pytest.raises(SchemaError), conn.transaction():
            send.using(tx=conn).enqueue()
        conn.execute("insert into orders values (7)")

    with empty_database.connect() as conn:
        assert conn.execute("select id from orders").fetchall() == [(7,)]


# ------------------------------------------------------------------------------------------------ whole or not at all


@pytest.mark.spec("Q1", "Q5", "Q9")
@pytest.mark.parametrize("face", ["sync", "async"])
def test_when_the_last_of_many_cannot_be_sent_the_first_are_not_there_either(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    """Several statements, and a client_encoding that cannot carry one text: the caller's own work stays, and goes on."""
    monkeypatch.setattr(batch, "ROWS", 10)
    shop.ask("create table orders (id int)")
    many = [shop.receipt.using(job_id=f"j{n}").new(n, note="\u20ac" if n == 30 else "") for n in range(31)]
    said = "client_encoding .* cannot carry this text: use UTF8"

    async def awaited() -> None:
        async with await psycopg.AsyncConnection.connect(shop.dsn, client_encoding="LATIN1") as conn:
            await conn.execute("insert into orders values (7)")
            with pytest.raises(UsageError, match=said):
                await shop.app.aenqueue_many(many, tx=conn)
            await shop.receipt.using(tx=conn, job_id="other").aenqueue(1)

    if face == "async":
        asyncio.run(awaited())
    else:
        with psycopg.connect(shop.dsn, client_encoding="LATIN1") as conn:
            conn.execute("insert into orders values (7)")
            with pytest.raises(UsageError, match=said):
                shop.app.enqueue_many(many, tx=conn)
            shop.receipt.using(tx=conn, job_id="other").enqueue(1)

    assert shop.job_ids() == ["other"]
    assert shop.ask("select id from orders") == [(7,)]


@pytest.mark.spec("Q1")
def test_a_connection_without_an_encoding_is_refused_before_anything_is_sent(shop: Shop) -> None:
    """SQL_ASCII: the answers would come back as bytes, after the job had been made."""
    with psycopg.connect(shop.dsn, client_encoding="SQL_ASCII") as conn:
        conn.execute(FIRST)
        with pytest.raises(UsageError, match="client_encoding is SQL_ASCII, .*; nothing was enqueued"):
            shop.receipt.using(tx=conn).enqueue(1)

    assert shop.count() == 0


@pytest.mark.spec("Q1")
def test_the_callers_kind_of_cursor_is_the_callers(shop: Shop) -> None:
    async def awaited() -> Answer:
        async with await psycopg.AsyncConnection.connect(shop.dsn, cursor_factory=psycopg.AsyncRawCursor) as conn:
            await conn.execute(FIRST)
            return (await shop.receipt.using(tx=conn, job_id="async").aenqueue(1)).status

    with psycopg.connect(shop.dsn, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(FIRST)
        raw = shop.receipt.using(tx=conn, job_id="raw").enqueue(1).status
    with psycopg.connect(shop.dsn, cursor_factory=psycopg.ClientCursor) as conn:
        conn.execute(FIRST)
        client = shop.receipt.using(tx=conn, job_id="client").enqueue(1).status

    assert [raw, client, asyncio.run(awaited())] == [Answer.CREATED] * 3
    assert shop.job_ids() == ["raw", "client", "async"]


@pytest.mark.spec("Q1", "Q4", "Q5")
def test_what_was_not_given_is_nothing_also_where_the_session_has_no_nulls_in_arrays(shop: Shop) -> None:
    """array_nulls = off: NULL in the text of an array is the word."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    some = [
        shop.receipt.using(unique_key="k", queue="mail", priority=5, run_at=tomorrow).new(1),
        shop.receipt.using(concurrency_key="c", tags=["x"], meta={"a": None}).new(2),
        shop.receipt.new(3),
    ]
    with psycopg.connect(shop.dsn, options="-c array_nulls=off") as conn:
        conn.execute(FIRST)
        answers = shop.app.enqueue_many(some, tx=conn)

    assert [one.status for one in answers] == [Answer.CREATED] * 3
    assert shop.ask(
        "select unique_key, queue, priority, run_at = %s, ckey, tags, meta::text from fencepost.job order by id",
        tomorrow,
    ) == [
        ("k", "mail", 5, True, None, None, None),
        (None, "default", 0, False, "c", ["x"], '{"a": null}'),
        (None, "default", 0, False, None, None, None),
    ]
