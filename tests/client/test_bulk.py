"""Thousands of jobs of several tasks in one call: in order, all or none (SPEC Q5, Q9; BLK-1, BLK-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from client.shop import FIRST, Shop
from fencepost import Answer
from fencepost.client import batch
from fencepost.domain.job import NewJob
from fencepost.errors import PayloadError, UsageError
from waiting import eventually

MANY = 5_000


def mixed(shop: Shop, number: int = MANY) -> Iterator[NewJob]:
    """Every third job is a report; all are named by their position."""
    for n in range(number):
        if n % 3:
            yield shop.receipt.using(job_id=f"j{n}").new(n)
        else:
            yield shop.report.using(job_id=f"j{n}").new(f"report {n}")


@pytest.mark.spec("Q5", "Q9")
def test_thousands_of_jobs_of_several_tasks_are_answered_in_order(shop: Shop) -> None:
    answers = shop.app.enqueue_many(mixed(shop))

    assert [one.job_id for one in answers] == [f"j{n}" for n in range(MANY)]
    assert {one.status for one in answers} == {Answer.CREATED}
    assert shop.job_ids() == [f"j{n}" for n in range(MANY)]
    assert [one.id for one in answers] == sorted(one.id for one in answers)
    assert shop.ask("select task, queue, count(*) from fencepost.job group by 1, 2 order by 1") == [
        ("receipt.send", "default", MANY - 1667),
        ("report.render", "reports", 1667),
    ]
    assert shop.payload("j4999") == {"order_id": 4999}
    assert shop.is_consistent()


@pytest.mark.spec("Q5", "Q9", "Q1")
def test_in_the_callers_transaction_nobody_sees_a_part_and_a_rollback_removes_all(shop: Shop) -> None:
    with shop.tx() as conn:
        shop.app.enqueue_many(mixed(shop), tx=conn)
        assert shop.count() == 0
        conn.rollback()

        conn.execute(FIRST)
        again = shop.app.enqueue_many(mixed(shop), tx=conn)

    assert {one.status for one in again} == {Answer.CREATED}
    assert shop.count() == MANY


@pytest.mark.spec("Q5", "Q9")
def test_async_bulk_is_the_same(shop: Shop) -> None:
    async def story() -> tuple[int, list[str]]:
        async with await shop.atx() as conn:
            await shop.app.aenqueue_many(mixed(shop), tx=conn)
            await conn.rollback()
        left = shop.count()
        answers = await shop.app.aenqueue_many(mixed(shop))
        await shop.app.aclose()
        return left, [one.job_id for one in answers]

    left, named = asyncio.run(story())

    assert left == 0
    assert named == shop.job_ids() == [f"j{n}" for n in range(MANY)]


def bad_payload(shop: Shop) -> NewJob:
    return shop.receipt.new("seven")


def bad_option(shop: Shop) -> NewJob:
    return shop.receipt.using(priority=1 << 40).new(7)


def no_job(shop: Shop) -> Any:
    return {"order_id": 7}


def breaks(shop: Shop) -> NewJob:
    raise LookupError("the caller's own generator")


@pytest.mark.spec("Q5", "Q9")
@pytest.mark.parametrize(
    ("last", "kind", "said"),
    [
        (bad_payload, PayloadError, "argument 'order_id'"),
        (bad_option, UsageError, "priority must be between"),
        (no_job, UsageError, rf"item {MANY} must be a job made by task\.new\(\.\.\.\), not dict"),
        (breaks, LookupError, "own generator"),
    ],
)
def test_when_the_last_one_is_bad_nothing_is_sent(shop: Shop, last: Any, kind: type[Exception], said: str) -> None:
    def items() -> Iterator[NewJob]:
        yield from mixed(shop)
        yield last(shop)

    with pytest.raises(kind, match=said):
        shop.app.enqueue_many(items())
    with shop.tx() as conn:
        with pytest.raises(kind, match=said):
            shop.app.enqueue_many(items(), tx=conn)
        conn.execute("create table goes_on (id int)")

    assert shop.count() == 0
    assert shop.one("select not is_called from fencepost.job_id_seq"), "an id was drawn: something was sent"


@pytest.mark.spec("Q5")
def test_when_postgresql_refuses_the_last_piece_the_first_ones_are_gone_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BLK-2: several statements are still one transaction."""
    monkeypatch.setattr(batch, "ROWS", 100)
    shop.ask("alter table fencepost.job add constraint no_last check (job_id <> 'j999')")

    with pytest.raises(Exception, match="no_last"):
        shop.app.enqueue_many(mixed(shop, 1000))

    assert shop.count() == 0
    shop.ask("alter table fencepost.job drop constraint no_last")
    assert [one.job_id for one in shop.app.enqueue_many(mixed(shop, 1000))] == [f"j{n}" for n in range(1000)]


@pytest.mark.spec("Q5")
def test_more_than_one_statement_is_visible_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """BLK-2: a piece that waits for somebody keeps the pieces before it out of sight."""
    monkeypatch.setattr(batch, "ROWS", 100)
    seen = []

    with shop.tx() as other:
        shop.receipt.using(tx=other, job_id="j950").enqueue(0)
        with ThreadPoolExecutor(1) as thread:
            try:
                sent = thread.submit(lambda: shop.app.enqueue_many(mixed(shop, 1000)))
                eventually(lambda: shop.ask("select 1 from pg_stat_activity where wait_event_type = 'Lock'"))
                seen.append(shop.count())
            finally:
                other.rollback()
            answers = sent.result(30)
        seen.append(shop.count())

    assert seen == [0, 1000]
    assert {one.status for one in answers} == {Answer.CREATED}


@pytest.mark.spec("Q5")
def test_nothing_to_enqueue_asks_no_database(shop: Shop) -> None:
    with shop.tx() as conn:
        assert shop.app.enqueue_many([], tx=conn) == []
    assert shop.app.enqueue_many(iter(())) == []
    assert shop.ask("select 1 from pg_stat_activity where application_name like 'fencepost%'") == []


@pytest.mark.spec("Q5")
@pytest.mark.parametrize("items", [None, 7])
def test_what_is_no_list_of_jobs_is_told_so(shop: Shop, items: Any) -> None:
    with pytest.raises(UsageError, match=r"enqueue_many\(\.\.\.\) takes a list of jobs made by task\.new"):
        shop.app.enqueue_many(items)


@pytest.mark.spec("Q5")
def test_a_single_job_is_told_to_stand_in_a_list(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"takes a list of jobs made by task\.new\(\.\.\.\), not NewJob"):
        shop.app.enqueue_many(shop.receipt.new(7))  # type: ignore[arg-type]

    assert shop.count() == 0


@pytest.mark.spec("Q5", "Q1")
def test_bulk_refuses_what_is_no_transaction_before_it_reads_the_items(shop: Shop) -> None:
    read = []

    def items() -> Iterator[NewJob]:
        read.append(1)
        yield shop.receipt.new(7)

    with psycopg.connect(shop.dsn) as conn, pytest.raises(UsageError, match="tx is not in a transaction"):
        shop.app.enqueue_many(items(), tx=conn)

    assert read == []
    assert shop.count() == 0
