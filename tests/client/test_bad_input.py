"""Bad input: one sentence that names the field and says what to do, at the caller, and nothing half done (SPEC Q6, Q7)."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from client.shop import Shop
from fencepost import App
from fencepost.errors import (
    DatabaseError,
    FencepostError,
    OutageError,
    PayloadError,
    SchemaError,
    UnsupportedDatabaseError,
    UsageError,
)
from fencepost.sql.catalog import Catalog, SqlFile
from fencepost.store import schema
from servers import Database

SOON = datetime(2999, 1, 1, tzinfo=UTC)
NAIVE = datetime(2999, 1, 1)  # noqa: DTZ001


@contextlib.contextmanager
def nothing_done(shop: Shop) -> Iterator[None]:
    """The rows are as they were, and not even an id was drawn."""
    before = shop.ask("select (select count(*) from fencepost.job), last_value, is_called from fencepost.job_id_seq")
    yield
    assert before == shop.ask(
        "select (select count(*) from fencepost.job), last_value, is_called from fencepost.job_id_seq"
    )


def each_way(shop: Shop, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]) -> list[UsageError]:
    """The same wrong call: plain, awaited, in a transaction, in a batch. What was raised by each."""

    def in_batch() -> object:
        return shop.app.enqueue_many([shop.receipt.new(1), shop.receipt.using(**options).new(*args, **kwargs)])

    def in_transaction() -> None:
        with shop.tx() as conn:
            try:
                shop.receipt.using(tx=conn, **options).enqueue(*args, **kwargs)
            finally:
                conn.execute("select 'the transaction is alive'")

    ways: list[Callable[[], object]] = [
        lambda: shop.receipt.using(**options).enqueue(*args, **kwargs),
        lambda: asyncio.run(shop.receipt.using(**options).aenqueue(*args, **kwargs)),
        in_transaction,
        in_batch,
    ]
    raised = []
    for way in ways:
        with pytest.raises(UsageError) as caught:
            way()
        raised.append(caught.value)
    return raised


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "missing": ((), {}, "missing a required argument: 'order_id'; it takes (order_id, note)"),
    "surplus": ((1, "a", 3), {}, "too many positional arguments; it takes (order_id, note)"),
    "twice": ((1,), {"order_id": 1}, "multiple values for argument 'order_id'"),
    "unknown": ((1,), {"note_": "x"}, "unknown argument 'note_'; did you mean 'note'?"),
    "an option": ((1,), {"priority": 5}, "'priority' is an option, no argument: using(priority=...)"),
    "text for a number": (("7",), {}, "argument 'order_id': input should be a valid integer"),
    "a float for a number": ((7.0,), {}, "argument 'order_id'"),
    "True for a number": ((True,), {}, "argument 'order_id'"),
    "None for a number": ((None,), {}, "argument 'order_id'"),
    "a number for text": ((1, 7), {}, "argument 'note': input should be a valid string"),
    "an object": ((object(),), {}, "argument 'order_id' cannot be stored as JSON"),
    "a function": ((1, print), {}, "argument 'note' cannot be stored as JSON"),
    "NaN": ((float("nan"),), {}, "$.order_id is nan, which JSON does not have"),
    "infinity": ((float("inf"),), {}, "$.order_id is inf, which JSON does not have"),
    "minus infinity": ((float("-inf"),), {}, "$.order_id is -inf, which JSON does not have"),
    "NUL": ((1, "a\x00b"), {}, "$.note contains NUL (U+0000), which PostgreSQL cannot store; remove it"),
    "half a character": ((1, "a\ud800"), {}, "lone surrogate"),
    "endless integer": ((10**5000,), {}, "order_id"),
    "too large": (
        (1, "x" * 262_144),
        {},
        "bytes of JSON and 262,144 are allowed; store it elsewhere and pass a reference",
    ),
    "too large in bytes": ((1, "\u00e9" * 140_000), {}, "bytes of JSON and 262,144 are allowed"),
}


@pytest.mark.spec("Q7")
@pytest.mark.parametrize(("args", "kwargs", "said"), CALLS.values(), ids=CALLS)
def test_a_wrong_call_fails_in_the_caller(shop: Shop, args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    """PSN-3: with the task and the argument by name, and never the value, which may be secret."""
    with nothing_done(shop):
        raised = each_way(shop, args, kwargs, {})

    assert {type(one) for one in raised} == {PayloadError}
    assert len({str(one) for one in raised}) == 1
    sentence = str(raised[0])
    assert said in sentence
    assert "receipt.send" in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "naive run_at": ({"run_at": NAIVE}, "run_at has no time zone; use datetime.now(timezone.utc)"),
    "naive start_by": ({"start_by": NAIVE}, "start_by has no time zone"),
    "naive finish_by": ({"finish_by": NAIVE}, "finish_by has no time zone"),
    "run_at as text": ({"run_at": "tomorrow"}, "run_at must be a datetime with a time zone, not str"),
    "run_at as seconds": ({"run_at": 1e9}, "run_at must be a datetime with a time zone, not float"),
    "run_at before 1970": ({"run_at": datetime(1969, 12, 31, tzinfo=UTC)}, "run_at must lie between the years 1970"),
    "run_at in the year 1": ({"run_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))}, "run_at must lie"),
    "run_at after 9999": ({"run_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=9)))}, "run_at must lie"),
    "negative delay": ({"delay": -1}, "delay must be between 0 and ten years, not -1"),
    "negative timedelta": ({"delay": timedelta(seconds=-1)}, "delay must be between 0 and ten years"),
    "NaN delay": ({"delay": float("nan")}, "delay must be between 0 and ten years"),
    "endless delay": ({"delay": timedelta.max}, "delay must be between 0 and ten years"),
    "delay in words": ({"delay": "soon"}, "delay must be seconds or text such as '30s'"),
    "both times": ({"delay": 1, "run_at": SOON}, "give run_at or delay, not both"),
    "finish before start": ({"start_by": SOON, "finish_by": SOON}, "finish_by must be later than start_by"),
    "finish before run": ({"run_at": SOON, "finish_by": SOON}, "finish_by must be later than run_at"),
    "start before run": ({"run_at": SOON, "start_by": SOON - timedelta(1)}, "start_by must not be earlier than run_at"),
    "priority in words": ({"priority": "high"}, "priority must be a whole number, not 'high'"),
    "priority too high": ({"priority": 32_001}, "priority must be between -32000 and 32000"),
    "no attempts": ({"max_attempts": 0}, "max_attempts must be between 1 and 32000"),
    "negative window": ({"dedup_window": -1}, "dedup_window must be"),
    "empty job_id": ({"job_id": ""}, "job_id must not be empty"),
    "job_id as number": ({"job_id": 7}, "job_id must be text, not int"),
    "long job_id": ({"job_id": "x" * 513}, "job_id has 513 characters; 512 are allowed"),
    "NUL in job_id": ({"job_id": "a\x00"}, "job_id holds a character that cannot be printed or stored"),
    "surrogate in a key": ({"unique_key": "\ud800"}, "unique_key holds a character"),
    "long unique_key": ({"unique_key": "x" * 3000}, "unique_key has 3000 characters"),
    "long concurrency_key": ({"concurrency_key": "x" * 3000}, "concurrency_key has 3000 characters"),
    "empty tenant": ({"tenant": ""}, "tenant must not be empty"),
    "long queue": ({"queue": "q" * 129}, "queue has 129 characters; 128 are allowed"),
    "blank queue": ({"queue": " "}, "queue must not be empty or begin or end with white space"),
    "tags as text": ({"tags": "urgent"}, "tags must be a list of words, not str"),
    "long tag": ({"tags": ["x" * 101]}, "tags: each tag has 101 characters; 100 are allowed"),
    "many tags": ({"tags": [str(n) for n in range(21)]}, "tags holds more than the 20 tags"),
    "tag as number": ({"tags": [7]}, "tags: each tag must be text"),
    "meta as list": ({"meta": [1]}, "meta must be a mapping with text keys"),
    "meta too large": ({"meta": {"a": "x" * 9000}}, "meta is"),
    "NaN in meta": ({"meta": {"a": float("nan")}}, "meta: $.a is nan"),
    "NUL in meta": ({"meta": {"a": ["\x00"]}}, "meta: $.a[0] contains NUL"),
    "a misspelt option": ({"dealy": 1}, "using(...) has no option 'dealy'; did you mean 'delay'?"),
}


@pytest.mark.spec("Q6")
@pytest.mark.parametrize(("options", "said"), OPTIONS.values(), ids=OPTIONS)
def test_an_option_that_can_never_work_is_refused_by_name(shop: Shop, options: dict[str, Any], said: str) -> None:
    """TMZ-1, TMZ-3, UNQ-6."""
    with nothing_done(shop):
        raised = each_way(shop, (1,), {}, options)

    assert len({str(one) for one in raised}) == 1
    sentence = str(raised[0])
    assert sentence.startswith("receipt.send")
    assert said in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400


@pytest.mark.spec("Q7")
def test_a_task_name_is_unique_bounded_and_known(shop: Shop) -> None:
    with pytest.raises(UsageError, match="task name 'receipt.send' is taken by .*tasks_of.*; give .* another name"):
        shop.app.task("receipt.send")(lambda: None)
    with pytest.raises(UsageError, match="a task's name has 129 characters; 128 are allowed"):
        shop.app.task("t" * 129)
    with pytest.raises(UsageError, match="no task is named 'receipt.sent'; did you mean 'receipt.send'?"):
        shop.app.registry.need("receipt.sent")
    with pytest.raises(UsageError, match="has no option 'que'; did you mean 'queue'?"):
        shop.app.task("t", que="mail")  # type: ignore[call-arg]

    assert len(shop.app.registry) == 2


# ----------------------------------------------------------------------------------------------------- the database

SECRET = "Tr0ub4dor-and-3"


def told(kind: type[FencepostError], work: Callable[[], object]) -> str:
    """The sentence; and no part of the chain of errors shows the password."""
    with pytest.raises(kind) as caught:
        work()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://shop:{SECRET}@127.0.0.1:1/shop",
        f"host=127.0.0.1 port=1 dbname=shop user=shop password={SECRET}",
        f"postgresql://shop:{SECRET}@no-such-host.invalid/shop?connect_timeout=2",
        f"postgresql://shop:{SECRET}@/shop?host=/nowhere/at/all",
    ],
)
def test_a_database_that_cannot_be_reached_is_an_outage_and_its_password_is_never_shown(dsn: str) -> None:
    """SEC-6."""
    app = App(dsn)
    send = app.task("t")(lambda: None)

    async def awaited() -> None:
        await send.aenqueue()

    for work in (send.enqueue, lambda: asyncio.run(awaited()), app.check_schema):
        assert told(OutageError, work)
    assert SECRET not in repr(app)


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        (f"postgresql://shop:{SECRET}@[::1/shop", "no PostgreSQL connection string; write postgresql://"),
        (f"host=h passwort={SECRET}", "no PostgreSQL connection string"),
        (f"shop {SECRET}", "no PostgreSQL connection string"),
        ("", "is empty; write postgresql:// if you mean"),
        ("  ", "is empty"),
        (f"postgresql://shop:{SECRET}@h:{SECRET}/shop", "a port that is no number from 1 to 65535"),
        (f"postgresql://shop:{SECRET}@h1:5432,h2:0/shop", "a port that is no number"),
        (f"host=h port=70000 password={SECRET}", "a port that is no number"),
        (f"postgresql+psycopg://shop:{SECRET}@h/shop", "needs it without the driver: postgresql://"),
        (7, "must be text such as postgresql://user@host/name, not int"),
    ],
)
def test_a_dsn_that_cannot_be_meant_is_refused_when_the_app_is_made(dsn: Any, said: str) -> None:
    sentence = told(UsageError, lambda: App(dsn))

    assert sentence.startswith("dsn ")
    assert said in sentence


def test_an_app_without_a_database_says_where_to_put_it() -> None:
    send = App().task("t")(lambda: None)

    assert "give App a dsn, or set FENCEPOST_DSN" in told(UsageError, send.enqueue)


def test_a_database_without_the_schema_names_the_command(empty_database: Database) -> None:
    app = App(empty_database.dsn)
    send = app.task("t")(lambda: None)

    assert "run fencepost migrate" in told(SchemaError, send.enqueue)
    assert app.check_schema().state == "missing"
    app.migrate()
    assert send.enqueue().is_new
    app.close()


def test_another_schema_than_the_apps_is_missing(shop: Shop) -> None:
    other = App(shop.dsn, schema="elsewhere")
    send = other.task("t")(lambda: None)

    with nothing_done(shop):
        assert "elsewhere" in told(SchemaError, send.enqueue)
    other.close()


def test_a_look_alike_is_refused_by_what_it_calls_itself(empty_database: Database) -> None:
    """A server that answers ``select version()`` as CockroachDB does: nothing is ever made there."""
    with empty_database.connect() as conn:
        conn.execute("create schema alike")
        conn.execute(
            "create function alike.version() returns text language sql as $$ select 'CockroachDB CCL v26.1.0' $$"
        )
    app = App(empty_database.dsn + " options='-csearch_path=alike,pg_catalog'")
    send = app.task("t")(lambda: None)

    for look in (app.migrate, app.check_schema):
        assert "this is CockroachDB, not PostgreSQL" in told(UnsupportedDatabaseError, look)
    assert "run fencepost migrate" in told(SchemaError, send.enqueue)

    with empty_database.connect() as conn:
        assert conn.execute("select 1 from pg_namespace where nspname = 'fencepost'").fetchall() == []
    app.close()


class Later(Catalog):
    """The schema of a later release, whose newest migration breaks this one."""

    def migrations(self) -> list[SqlFile]:
        return [*super().migrations(), SqlFile("0099_later", "select 1", {"breaking": "yes"})]


def test_a_newer_schema_is_used_as_long_as_it_keeps_the_function_and_then_refused(shop: Shop) -> None:
    """The look says so first; the enqueue itself needs one function, which a later release keeps as long as it can."""
    schema.migrate(shop.dsn, Later())
    report = shop.app.check_schema()
    assert (report.state, report.is_usable) == ("too new", False)
    assert "install a newer fencepost" in report.sentence
    assert shop.receipt.enqueue(1).is_new

    shop.ask("drop function fencepost.enqueue_v1")

    with nothing_done(shop):
        sentence = told(SchemaError, lambda: shop.receipt.enqueue(1))
    assert "run fencepost migrate" in sentence
    assert "if it is newer than this program, install a newer fencepost" in sentence


def test_a_role_without_rights_is_told_to_be_granted_them(shop: Shop) -> None:
    shop.ask("create role stranger login")
    try:
        app = App(f"{shop.dsn} user=stranger")
        send = app.task("t")(lambda: None)
        with nothing_done(shop):
            assert "this database role may not do that, grant it" in told(DatabaseError, send.enqueue)
        app.close()
    finally:
        shop.ask("drop role stranger")
