"""Without a transaction of the caller's: one call, one commit, and never two jobs whatever breaks (SPEC Q2, W4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from client.shop import Shop
from commits import commits_wait
from fencepost import Answer, Enqueued
from fencepost.client import aio, sync
from fencepost.errors import OutageError
from fencepost.sql.catalog import Catalog
from fencepost.store import drive
from servers import Database, Server
from waiting import eventually

OURS = "select pid from pg_stat_activity where datname = current_database() and application_name like 'fencepost%'"


def end_all(shop: Shop) -> list[int]:
    """pg_terminate_backend for every connection of the app; their process ids, once they are gone."""
    ended = [row[0] for row in shop.ask(OURS)]
    shop.ask("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", ended)
    eventually(lambda: not shop.ask("select 1 from pg_stat_activity where pid = any(%s)", ended))
    return ended


@pytest.fixture
def mortal(own_server: Server) -> Iterator[Shop]:
    """A shop on a server that this test may hurt."""
    made = Shop(Database(own_server.dsn, Catalog(), own_server))
    yield made
    made.close()


@pytest.mark.spec("Q2")
def test_the_job_is_there_for_all_when_the_call_returns(shop: Shop) -> None:
    answer = shop.receipt.enqueue(7)

    assert answer.status is Answer.CREATED
    assert shop.job_ids() == [answer.job_id]
    assert shop.ask("select state from pg_stat_activity where pid = any(%s)", [r[0] for r in shop.ask(OURS)]) == [
        ("idle",)
    ]


@pytest.mark.spec("Q2")
def test_the_callers_open_transaction_is_not_touched_by_a_call_without_tx(shop: Shop) -> None:
    """The difference that ``tx=`` makes: this job outlives the rollback."""
    with shop.tx() as conn:
        conn.execute("create table orders (id int)")
        shop.receipt.using(job_id="stays").enqueue(7)
        conn.rollback()

    assert shop.job_ids() == ["stays"]


@pytest.mark.spec("Q2")
def test_an_enqueue_writes_nothing_but_its_own_transaction(shop: Shop) -> None:
    """One commit a call, also where the database's default isolation forces a block of its own."""
    name = shop.one("select current_database()")
    shop.ask(f"alter database {name} set default_transaction_isolation = 'serializable'")

    shop.receipt.using(job_id="a").enqueue(1)
    shop.receipt.using(job_id="b").enqueue(1)

    xmins = {row[0] for row in shop.ask("select xmin::text from fencepost.job")}
    assert len(xmins) == 2
    assert (
        shop.one("select count(*) from fencepost.job j join fencepost.ready r on r.xmin = j.xmin and r.id = j.id") == 2
    )


@pytest.mark.spec("Q2", "W4")
def test_a_backend_killed_between_two_enqueues_is_not_noticed(shop: Shop) -> None:
    first = shop.receipt.using(job_id="first").enqueue(1)
    assert len(end_all(shop)) == 1

    second = shop.receipt.using(job_id="second").enqueue(2)
    unnamed = shop.receipt.enqueue(3)

    assert [first.status, second.status, unnamed.status] == [Answer.CREATED] * 3
    assert shop.job_ids() == ["first", "second", unnamed.job_id]
    assert shop.is_consistent()


@pytest.mark.spec("Q2", "W4")
def test_async_connections_are_replaced_too(shop: Shop) -> None:
    async def story() -> list[Answer]:
        answers = await asyncio.gather(*(shop.receipt.aenqueue(n) for n in range(4)))
        await asyncio.to_thread(end_all, shop)
        answers += await asyncio.gather(*(shop.receipt.aenqueue(n) for n in range(4)))
        await shop.app.aclose()
        return [one.status for one in answers]

    assert asyncio.run(story()) == [Answer.CREATED] * 8
    assert shop.count() == 8


@pytest.mark.spec("Q2", "W4")
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_a_backend_killed_in_the_middle_of_an_enqueue_makes_no_second_job(
    shop: Shop, commits: bool, named: bool
) -> None:
    """Our call waits for somebody's key when its backend dies; it is sent again and answers what is true then."""
    options: dict[str, Any] = {"job_id": "ours"} if named else {}

    with ThreadPoolExecutor(1) as thread, shop.tx() as other:
        holder = shop.receipt.using(tx=other, job_id="theirs", unique_key="k").enqueue(1)
        sent = thread.submit(lambda: shop.receipt.using(unique_key="k", **options).enqueue(1))
        eventually(lambda: shop.ask(OURS + " and wait_event_type = 'Lock'"))
        end_all(shop)
        eventually(lambda: shop.ask(OURS + " and wait_event_type = 'Lock'"))
        if commits:
            other.commit()
        else:
            other.rollback()
        answer = sent.result(30)

    if commits:
        assert (answer.status, answer.holder, answer.id) == (Answer.SKIPPED, "theirs", holder.id)
    else:
        assert answer.status is Answer.CREATED
    assert shop.count() == 1
    assert shop.is_consistent()


@pytest.mark.spec("Q2", "Q3", "W4")
@pytest.mark.parametrize(
    ("options", "status"), [({}, Answer.CREATED), ({"job_id": "receipt:7"}, Answer.EXISTS)], ids=["unnamed", "named"]
)
def test_an_answer_lost_after_the_commit_makes_no_second_job(
    mortal: Shop, options: dict[str, Any], status: Answer
) -> None:
    """The worst moment: the job is durable, the commit waits for a standby that never comes, and the connection dies.

    An id that was made for this call can only be its own: ``created``. The caller's own id may be anybody's: ``exists``.
    """
    mortal.receipt.using(job_id="warm").enqueue(0)

    with ThreadPoolExecutor(1) as thread, commits_wait(mortal.dsn):
        sent: Future[Enqueued] = thread.submit(lambda: mortal.receipt.using(**options).enqueue(7))
        eventually(lambda: mortal.ask(OURS + " and wait_event = 'SyncRep'"))
        end_all(mortal)
    answer = sent.result(30)

    assert answer.status is status
    assert not answer.differs
    assert mortal.job_ids() == ["warm", answer.job_id]
    assert mortal.is_consistent()


@pytest.mark.spec("Q2", "Q3", "Q11", "W4")
@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize(
    ("act", "word"),
    [("succeed", Answer.DEDUPLICATED), ("doubt", Answer.IN_DOUBT), (None, Answer.EXISTS)],
    ids=["it succeeded", "it is in doubt", "it waits"],
)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_repetition_never_denies_the_job_that_its_own_first_try_has_made(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, face: str, act: str | None, word: Answer, named: bool
) -> None:
    """A worker was faster than the second try. By an id made here: created. By the caller's own nobody knows, as is said."""
    lost: list[str] = []

    def lose(answers: list[Enqueued], conn: Any) -> None:
        if not lost:
            lost.append(answers[0].job_id)
            if act is not None:
                shop.end(answers[0].job_id, act)
            conn.pgconn.finish()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    def sync_run(conn: Any, flow: Any, **how: Any) -> Any:
        answers = drive.run(conn, flow, **how)
        lose(answers, conn)
        return answers

    async def async_run(conn: Any, flow: Any, **how: Any) -> Any:
        answers = await drive.arun(conn, flow, **how)
        lose(answers, conn)
        return answers

    monkeypatch.setattr(sync, "run", sync_run)
    monkeypatch.setattr(aio, "arun", async_run)
    call = shop.receipt.using(job_id="mine") if named else shop.receipt

    async def awaited() -> Enqueued:
        found = await call.aenqueue(1)
        await shop.app.aclose()
        return found

    answer = call.enqueue(1) if face == "sync" else asyncio.run(awaited())

    assert lost == shop.job_ids() == [answer.job_id]
    told = (answer.status, answer.is_new, answer.unsure)
    assert told == ((word, False, True) if named else (Answer.CREATED, True, False))


def lost_once(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """The first answer is lost on its way: what was asked for is committed, and then something happens."""
    losses: list[object] = []

    def run(conn: Any, flow: Any, **how: Any) -> Any:
        answer = drive.run(conn, flow, **how)
        if not losses:
            losses.append(answer)
            if conn.info.transaction_status == TransactionStatus.INTRANS:
                conn.execute("commit")
            meanwhile()
            conn.pgconn.finish()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return answer

    monkeypatch.setattr(sync, "run", run)


@pytest.mark.spec("Q2", "Q3", "W4")
def test_a_repetition_starts_no_job_anew_that_has_failed_meanwhile(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call is one submission, however often it is sent; whose end it was, the caller is told, nobody can say."""
    lost_once(monkeypatch, lambda: shop.end("mine", "fail"))

    with pytest.raises(OutageError, match="whether it was resubmitted is unknown"):
        shop.receipt.using(job_id="mine").enqueue(1)

    assert shop.ask("select state, resubmits from fencepost.jobs") == [("failed", 0)]


@pytest.mark.spec("A3", "R5", "W4")
def test_an_operators_act_whose_answer_was_lost_is_not_repeated(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have happened: the operator is told so, and looks before acting again."""
    shop.receipt.using(job_id="failed").enqueue(1)
    shop.end("failed", "fail")
    lost_once(monkeypatch, lambda: shop.end("failed", "fail"))

    with pytest.raises(OutageError):
        shop.app.client.retry("failed", actor="ann")

    assert shop.one("select manual from fencepost.job") == 1
    assert shop.ask("select action from fencepost.audit") == [("resubmit",)]


@pytest.mark.spec("Q2", "Q5", "W4")
def test_a_batch_whose_answer_was_lost_is_there_once(mortal: Shop) -> None:
    mortal.receipt.using(job_id="warm").enqueue(0)
    with ThreadPoolExecutor(1) as thread, commits_wait(mortal.dsn):
        sent = thread.submit(lambda: mortal.app.enqueue_many([mortal.receipt.new(n) for n in range(100)]))
        eventually(lambda: mortal.ask(OURS + " and wait_event = 'SyncRep'"))
        end_all(mortal)
    answers = sent.result(30)

    assert {one.status for one in answers} == {Answer.CREATED}
    assert mortal.job_ids() == ["warm", *[one.job_id for one in answers]]


@pytest.mark.spec("Q2", "W4")
def test_a_restarted_server_is_found_again_and_a_stopped_one_is_an_outage(mortal: Shop) -> None:
    server = mortal.database.server
    mortal.receipt.using(job_id="before").enqueue(1)
    server.restart()

    assert mortal.receipt.using(job_id="after").enqueue(2).status is Answer.CREATED
    server.stop()
    with pytest.raises(OutageError):
        mortal.receipt.using(job_id="never").enqueue(3)
    server.start()

    assert mortal.job_ids() == ["before", "after"]
    assert mortal.receipt.using(job_id="now").enqueue(3).status is Answer.CREATED


@pytest.mark.spec("Q2")
def test_many_threads_share_a_few_connections(shop: Shop) -> None:
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(shop.receipt.enqueue, range(200)))

    assert {one.status for one in answers} == {Answer.CREATED}
    assert shop.count() == 200
    assert 1 <= len(shop.ask(OURS)) <= 4


@pytest.mark.spec("Q2", "Q3", "W4")
def test_a_pool_full_of_dead_connections_costs_no_try_and_leaves_no_doubt(shop: Shop) -> None:
    """They are recognised before anything is sent, so that a failed job is resubmitted and not merely said to exist."""
    shop.receipt.using(job_id="failed").enqueue(1)
    shop.end("failed", "fail")
    with ThreadPoolExecutor(4) as threads, shop.tx() as other:
        shop.receipt.using(tx=other, unique_key="k").enqueue(1)
        sent = [threads.submit(lambda: shop.receipt.using(unique_key="k").enqueue(1)) for _ in range(4)]
        eventually(lambda: len(shop.ask(OURS + " and wait_event_type = 'Lock'")) == 4)
        other.commit()
        assert [one.result(30).status for one in sent] == [Answer.SKIPPED] * 4
    assert len(end_all(shop)) == 4

    answer = shop.receipt.using(job_id="failed").enqueue(1)

    assert answer.status is Answer.RESUBMITTED
