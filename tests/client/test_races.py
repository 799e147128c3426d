"""One id, one key, many callers at once: one row and truthful answers for all (SPEC Q3, Q4, Q11; UNQ-4, DLK-2)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from client.shop import RACERS, WAITING, Shop, race, tasks_of
from fencepost import Answer, App, Enqueued
from waiting import aeventually, eventually

ROUNDS = 5

Options = Callable[[int, int], dict[str, Any]]
SAME_ID: Options = lambda n, turn: {"job_id": f"j{turn}"}  # noqa: E731
SAME_KEY: Options = lambda n, turn: {"job_id": f"j{turn}:{n}", "unique_key": f"k{turn}"}  # noqa: E731
UNNAMED: Options = lambda n, turn: {"unique_key": f"k{turn}"}  # noqa: E731
BOTH: Options = lambda n, turn: {"job_id": f"j{turn}", "unique_key": f"k{turn}"}  # noqa: E731


def tell(answers: list[Enqueued], other: Answer) -> None:
    """One made it; all others say ``other`` and name the same row, which is the winner's."""
    (winner,) = [one for one in answers if one.status is Answer.CREATED]
    losers = [one for one in answers if one is not winner]
    assert [one.status for one in losers] == [other] * (RACERS - 1)
    assert {one.id for one in losers} == {winner.id}
    if other is Answer.SKIPPED:
        assert {one.holder for one in losers} == {winner.job_id}
    else:
        assert {one.job_id for one in losers} == {winner.job_id}


WAYS = pytest.mark.parametrize(
    ("options", "other"),
    [
        (SAME_ID, Answer.EXISTS),
        (SAME_KEY, Answer.SKIPPED),
        (UNNAMED, Answer.SKIPPED),
        (BOTH, Answer.EXISTS),
    ],
    ids=["same id", "same key", "same key, no id", "both"],
)


@pytest.mark.spec("Q3", "Q4", "Q11")
@WAYS
def test_sixteen_programs_race_in_their_own_transactions(shop: Shop, options: Options, other: Answer) -> None:
    def caller(n: int) -> list[Enqueued]:
        answers = []
        for turn in range(ROUNDS):
            with shop.tx() as conn:
                conn.execute("insert into orders values (%s)", (n,))
                answers.append(shop.receipt.using(tx=conn, **options(n, turn)).enqueue(1))
        return answers

    shop.ask("create table orders (id int)")
    by_caller = race(RACERS, caller)

    for answers in zip(*by_caller, strict=True):
        tell(list(answers), other)
    assert shop.count() == ROUNDS
    assert shop.one("select count(*) from orders") == RACERS * ROUNDS
    assert shop.is_consistent()


@pytest.mark.spec("Q2", "Q3", "Q4", "Q11")
@WAYS
def test_sixteen_programs_race_without_a_transaction(shop: Shop, options: Options, other: Answer) -> None:
    """One app each, so that sixteen connections are open and none of them waits in a pool."""
    apps = [App(shop.dsn) for _ in range(RACERS)]
    sends = [tasks_of(app)[0] for app in apps]

    by_caller = race(RACERS, lambda n: [sends[n].using(**options(n, turn)).enqueue(1) for turn in range(ROUNDS)])

    for app in apps:
        app.close()
    for answers in zip(*by_caller, strict=True):
        tell(list(answers), other)
    assert shop.count() == ROUNDS
    assert shop.is_consistent()


@pytest.mark.spec("Q3", "Q4", "Q11")
@WAYS
def test_sixteen_async_callers_race(shop: Shop, options: Options, other: Answer) -> None:
    async def caller(n: int, gate: asyncio.Barrier) -> list[Enqueued]:
        answers = []
        async with await shop.atx() as conn:
            await conn.commit()
            await gate.wait()
            for turn in range(ROUNDS):
                async with conn.transaction():
                    answers.append(await shop.receipt.using(tx=conn, **options(n, turn)).aenqueue(1))
        return answers

    async def all_of_them() -> list[list[Enqueued]]:
        gate = asyncio.Barrier(RACERS)
        return await asyncio.gather(*(caller(n, gate) for n in range(RACERS)))

    for answers in zip(*asyncio.run(all_of_them()), strict=True):
        tell(list(answers), other)
    assert shop.count() == ROUNDS
    assert shop.is_consistent()


@pytest.mark.spec("Q2", "Q3")
def test_sixteen_async_tasks_share_the_apps_few_connections(shop: Shop) -> None:
    async def all_of_them() -> list[Enqueued]:
        send = shop.receipt.using(job_id="one")
        try:
            return await asyncio.gather(*(send.aenqueue(1) for _ in range(RACERS)))
        finally:
            await shop.app.aclose()

    tell(asyncio.run(all_of_them()), Answer.EXISTS)
    assert shop.count() == 1


@pytest.mark.spec("Q3", "Q11")
def test_racers_with_other_arguments_are_told_that_the_winners_count(shop: Shop) -> None:
    def caller(n: int) -> Enqueued:
        with shop.tx() as conn:
            return shop.receipt.using(tx=conn, job_id="one").enqueue(n // 8)

    answers = race(RACERS, caller)

    stored = shop.payload("one")["order_id"]
    tell(answers, Answer.EXISTS)
    assert [one.differs for one in answers] == [n // 8 != stored for n in range(RACERS)]


# ------------------------------------------------------------------------------------------ behind an open transaction


def behind(shop: Shop, options: Options, ends: Callable[[Any], None]) -> tuple[Enqueued, list[Enqueued]]:
    """One caller has enqueued and holds its transaction open; fifteen wait for it; then ``ends(connection)``."""

    def caller(n: int) -> Enqueued:
        with shop.tx() as conn:
            return shop.receipt.using(tx=conn, **options(n, 0)).enqueue(1)

    with ThreadPoolExecutor(RACERS - 1) as threads, shop.tx() as first:
        answer = shop.receipt.using(tx=first, **options(0, 0)).enqueue(1)
        waiting: list[Future[Enqueued]] = [threads.submit(caller, n) for n in range(1, RACERS)]
        eventually(lambda: shop.one(WAITING) == RACERS - 1)
        ends(first)
        return answer, [one.result(30) for one in waiting]


@pytest.mark.spec("Q3", "Q4", "Q11")
@WAYS
def test_when_the_first_commits_all_who_waited_are_told_of_it(shop: Shop, options: Options, other: Answer) -> None:
    first, answers = behind(shop, options, lambda conn: conn.commit())

    tell([first, *answers], other)
    assert shop.count() == 1


@pytest.mark.spec("Q1", "Q3", "Q4", "Q11")
@WAYS
def test_when_the_first_rolls_back_one_of_the_others_makes_the_job(shop: Shop, options: Options, other: Answer) -> None:
    """Its ``created`` was a promise for its commit only; the fifteen share out one row among themselves."""
    first, answers = behind(shop, options, lambda conn: conn.rollback())

    (winner,) = [one for one in answers if one.status is Answer.CREATED]
    assert first.status is Answer.CREATED
    assert Counter(one.status for one in answers) == {Answer.CREATED: 1, other: RACERS - 2}
    assert {one.id for one in answers} == {winner.id}
    assert winner.id != first.id
    assert shop.ask("select id, job_id from fencepost.job") == [(winner.id, winner.job_id)]
    assert shop.is_consistent()


@pytest.mark.spec("Q4", "Q11")
def test_async_callers_behind_a_rolled_back_one(shop: Shop) -> None:
    async def caller(n: int) -> Enqueued:
        async with await shop.atx() as conn:
            return await shop.receipt.using(tx=conn, job_id=f"j{n}", unique_key="k").aenqueue(1)

    async def story() -> list[Enqueued]:
        async with await shop.atx() as first:
            await shop.receipt.using(tx=first, job_id="first", unique_key="k").aenqueue(1)
            waiting = [asyncio.create_task(caller(n)) for n in range(RACERS - 1)]
            await aeventually(lambda: shop.one(WAITING) == RACERS - 1)
            await first.rollback()
            return await asyncio.gather(*waiting)

    answers = asyncio.run(story())

    assert Counter(one.status for one in answers) == {Answer.CREATED: 1, Answer.SKIPPED: RACERS - 2}
    assert shop.count() == 1


@pytest.mark.spec("Q11")
def test_a_caller_that_loses_waits_for_nobody_who_has_not_the_same_id(shop: Shop) -> None:
    """An open transaction holds its own ids and keys and nothing else: neighbours enqueue at once."""
    with shop.tx() as first:
        shop.receipt.using(tx=first, job_id="a", unique_key="k").enqueue(1)

        with shop.tx() as other:
            other.execute("set local lock_timeout = '2s'")
            answers = [
                shop.receipt.using(tx=other, job_id="b", unique_key="l").enqueue(1),
                shop.report.using(tx=other, unique_key="k").enqueue("x"),
                shop.receipt.using(tx=other).enqueue(1),
            ]

    assert [one.status for one in answers] == [Answer.CREATED] * 3
    assert shop.count() == 4


@pytest.mark.spec("Q5", "Q11")
@pytest.mark.parametrize("keyed", [False, True])
def test_batches_of_the_same_jobs_in_any_order_neither_deadlock_nor_double(shop: Shop, keyed: bool) -> None:
    """DLK-2: eight callers send the same fifty jobs, each shuffled, in their own transactions."""
    names = [f"j{n}" for n in range(50)]

    def caller(n: int) -> list[Enqueued]:
        mine = random.Random(n).sample(names, len(names))
        jobs = [shop.receipt.using(job_id=one, unique_key=f"k:{one}" if keyed else None).new(1) for one in mine]
        with shop.tx() as conn:
            answers = shop.app.enqueue_many(jobs, tx=conn)
        assert [one.job_id for one in answers] == mine
        return answers

    every = [one for answers in race(8, caller) for one in answers]

    assert Counter(one.status for one in every) == {Answer.CREATED: 50, Answer.EXISTS: 350}
    assert sorted(one.job_id for one in every if one.status is Answer.CREATED) == sorted(names)
    assert shop.count() == 50
    assert shop.is_consistent()


@pytest.mark.spec("Q3", "Q4", "Q11")
def test_a_key_taken_for_a_job_that_exists_already_is_given_back(shop: Shop) -> None:
    """The same id under another key, met only while it is being inserted: ``exists``, and the key stays free."""
    with ThreadPoolExecutor(1) as thread, shop.tx() as first:
        shop.receipt.using(tx=first, job_id="a", unique_key="k").enqueue(1)
        sent = thread.submit(lambda: shop.receipt.using(job_id="a", unique_key="l").enqueue(1))
        eventually(lambda: shop.one(WAITING) == 1)
        first.commit()
        answer = sent.result(30)

    assert answer.status is Answer.EXISTS
    assert shop.is_consistent()
    assert shop.receipt.using(unique_key="l").enqueue(1).status is Answer.CREATED
