"""Enqueue, in all its ways: one and many, ours and the caller's transaction, fresh and pooled, sync and async."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any

from fencepost import Answer, Enqueued
from fencepost.domain.job import NewJob
from points.injector import AsyncCallers, Callers
from points.operations import Operation, World

BUSINESS = "insert into public.business values ('order') on conflict do nothing"


def new(job_id: str | None = None, **options: Any) -> NewJob:
    return NewJob(task="t", payload="{}", job_id=job_id, **options)


def unnamed() -> list[NewJob]:
    return [new()]


def named() -> list[NewJob]:
    return [new("a")]


def many() -> list[NewJob]:
    """Several statements, since a test's piece has two jobs; with keys, and two that exclude each other."""
    return [new("a"), new("b", unique_key="k"), new("c", unique_key="k"), new("d", unique_key="l"), new("e")]


# --------------------------------------------------------------------------------------------------------- the callers


def _own(wanted: Callable[[], list[NewJob]], *, warm: bool) -> Callable[[World], None]:
    def act(world: World) -> None:
        world.app.close()
        if warm:
            world.app.client.status()
        with world.faults():
            _note(world, world.persist(lambda: world.app.enqueue_many(wanted())))

    return act


def _aown(wanted: Callable[[], list[NewJob]], *, warm: bool) -> Callable[[World], Any]:
    async def act(world: World) -> None:
        if warm:
            await world.app.aclient.status()
        with world.faults():
            answers = await world.apersist(lambda: world.app.aenqueue_many(wanted()))
        _note(world, answers)
        await world.app.aclose()

    return act


def _tx(wanted: Callable[[], list[NewJob]]) -> Callable[[World], None]:
    """The caller's whole transaction, repeated by the caller: an order and its jobs are there together or not at all."""

    def once(world: World) -> list[Enqueued]:
        with closing(Callers.connect(world.dsn)) as conn, conn:
            conn.execute(BUSINESS)
            return world.app.enqueue_many(wanted(), tx=conn)

    def act(world: World) -> None:
        with world.faults():
            _note(world, world.persist(lambda: once(world)))

    return act


@asynccontextmanager
async def _aopen(dsn: str) -> AsyncIterator[AsyncCallers]:
    conn = await AsyncCallers.connect(dsn)
    try:
        yield conn
    finally:
        await conn.close()


def _atx(wanted: Callable[[], list[NewJob]]) -> Callable[[World], Any]:
    async def once(world: World) -> list[Enqueued]:
        async with _aopen(world.dsn) as conn, conn.transaction():
            await conn.execute(BUSINESS)
            return await world.app.aenqueue_many(wanted(), tx=conn)

    async def act(world: World) -> None:
        with world.faults():
            answers = await world.apersist(lambda: once(world))
        _note(world, answers)

    return act


def _note(world: World, answers: list[Enqueued] | None) -> None:
    world.notes["answers"] = answers or []
    world.acknowledged |= {one.job_id for one in answers or () if one.status is not Answer.SKIPPED}


# ---------------------------------------------------------------------------------------------------------- the judges


def _one_job(world: World) -> Iterator[str]:
    """One call, one job; whoever gave up cannot know."""
    rows = world.witness.one("select count(*) from fencepost.job")
    if rows > 1 or (rows == 0 and not world.given_up):
        yield f"{rows} jobs of one call"
    said = [one for one in world.notes.get("answers", ()) if one.status is not Answer.CREATED and not one.unsure]
    if said and len(world.told) == 1:
        yield f"a new job is said to be {said}"


def _all_or_none(world: World) -> Iterator[str]:
    rows = world.witness.one("select string_agg(job_id, '' order by job_id) from fencepost.job")
    if rows != "abde" and not (world.given_up and rows is None):
        yield f"of a, b, d, e and c, which has b's key, there are {rows}"
    said = [one.status for one in world.notes.get("answers", ())]
    if said and said[2] is not Answer.SKIPPED:
        yield f"c is said to be {said[2]}"


def _together(rest: Callable[[World], Iterable[str]]) -> Callable[[World], Iterator[str]]:
    def judge(world: World) -> Iterator[str]:
        yield from rest(world)
        order, job = world.witness.ask("select (select count(*) from public.business), count(*) from fencepost.job")[0]
        if bool(order) != bool(job):
            yield f"{order} orders and {job} jobs"

    return judge


def _given_failed(world: World) -> None:
    world.put(new("a"))
    world.end(world.claim(7), "fail")


def _resubmitted(world: World) -> Iterator[str]:
    times = world.witness.one("select resubmits from fencepost.job where job_id = 'a'")
    if times != 1 and not (world.given_up and times == 0):
        yield f"resubmitted {times} times"


def _given_holder(world: World) -> None:
    world.put(new("holder", unique_key="k"))


def _skipped(world: World) -> Iterator[str]:
    if set(world.witness.states()) != {"holder"}:
        yield f"beside the holder of the key: {world.witness.states()}"
    if any((one.status, one.holder) != (Answer.SKIPPED, "holder") for one in world.notes.get("answers", ())):
        yield f"the holder is not named: {world.notes['answers']}"


def _given_succeeded(world: World) -> None:
    world.put(new("a"))
    world.end(world.claim(7), "succeed")


def _refused(world: World) -> Iterator[str]:
    if world.witness.one("select resubmits + generation from fencepost.job") != 0:
        yield "a job that had succeeded was started again within its window"
    if any(one.status not in (Answer.DEDUPLICATED, Answer.EXISTS) for one in world.notes.get("answers", ())):
        yield f"a job that had succeeded is said to be {world.notes['answers']}"


def keyed() -> list[NewJob]:
    return [new("late", unique_key="k")]


OPERATIONS = [
    Operation("enqueue, fresh connection", _own(unnamed, warm=False), at_once=_one_job),
    Operation("enqueue, pooled connection", _own(unnamed, warm=True), at_once=_one_job),
    Operation("enqueue by name", _own(named, warm=True), at_once=_one_job),
    Operation("enqueue what has failed", _own(named, warm=True), given=_given_failed, at_once=_resubmitted),
    Operation("enqueue what has succeeded", _own(named, warm=True), given=_given_succeeded, at_once=_refused),
    Operation("enqueue behind a key", _own(keyed, warm=True), given=_given_holder, at_once=_skipped),
    Operation("enqueue_many, fresh connection", _own(many, warm=False), at_once=_all_or_none),
    Operation("enqueue_many, pooled connection", _own(many, warm=True), at_once=_all_or_none),
    Operation("enqueue in the caller's transaction", _tx(named), at_once=_together(_one_job)),
    Operation("enqueue_many in the caller's transaction", _tx(many), at_once=_together(_all_or_none)),
    Operation("aenqueue, fresh connection", _aown(unnamed, warm=False), at_once=_one_job),
    Operation("aenqueue, pooled connection", _aown(unnamed, warm=True), at_once=_one_job),
    Operation("aenqueue what has failed", _aown(named, warm=True), given=_given_failed, at_once=_resubmitted),
    Operation("aenqueue behind a key", _aown(keyed, warm=True), given=_given_holder, at_once=_skipped),
    Operation("aenqueue_many, fresh connection", _aown(many, warm=False), at_once=_all_or_none),
    Operation("aenqueue_many, pooled connection", _aown(many, warm=True), at_once=_all_or_none),
    Operation("aenqueue in the caller's transaction", _atx(named), at_once=_together(_one_job)),
    Operation("aenqueue_many in the caller's transaction", _atx(many), at_once=_together(_all_or_none)),
]
