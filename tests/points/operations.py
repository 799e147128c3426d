"""What is done under a fault, and how it is played: counted once, then failed at each of its calls in turn."""

from __future__ import annotations

import asyncio
import types
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg

from fencepost import App
from fencepost.client.pool import SIZE
from fencepost.domain.job import Enqueued, Fence, NewJob
from fencepost.domain.outcome import Settlement
from fencepost.errors import OutageError
from fencepost.sql.catalog import Catalog
from fencepost.store import faults, jobs
from fencepost.store.flow import Flow
from fencepost.store.wire import Wire
from points.injector import Call, Injector
from points.witness import Witness
from waiting import eventually

T = TypeVar("T")

TRIES = 4
"""A caller tries again so often. One fault was injected, so a second trouble is the library's own."""

AWAIT = "await"
"""The way of async code that cancels the task at its n-th suspension, whatever it waits for there."""

FATES = (KeyboardInterrupt, asyncio.CancelledError)


@dataclass
class World:
    """One database, one app, and what the callers in it were told."""

    dsn: str
    witness: Witness
    injector: Injector
    app: App
    hands: Wire
    """What prepares a world, without faults."""
    sql: Catalog = field(default_factory=Catalog)
    way: str | None = None
    at: int = -1
    suspensions: int = 0
    given_up: bool = False
    """The caller was interrupted and does not try again."""
    told: list[str] = field(default_factory=list)
    """What it was told at each try: an error's name, or the answer."""
    acknowledged: set[str] = field(default_factory=set)
    accepted: Counter[Fence] = field(default_factory=Counter)
    begun: Counter[tuple[int, int]] = field(default_factory=Counter)
    notes: dict[str, Any] = field(default_factory=dict)

    def forget(self) -> None:
        """Before the next point."""
        self.witness.set_back()
        self.given_up, self.suspensions = False, 0
        self.told, self.acknowledged, self.notes = [], set(), {}
        self.accepted, self.begun = Counter(), Counter()

    @contextmanager
    def faults(self) -> Iterator[None]:
        """The calls in here are counted, and one of them fails."""
        by_call = self.way is not None and self.way != AWAIT
        with self.injector.armed(self.way if by_call else None, self.at if by_call else -1):
            yield

    # --------------------------------------------------------------------------------------------------- before a fault

    def plain(self, flow: Flow[T]) -> T:
        """Run a flow with no fault."""
        return self.hands.run(flow)

    def put(self, *wanted: NewJob) -> list[Enqueued]:
        answers = self.plain(jobs.enqueue(self.sql, wanted))
        self.acknowledged |= {one.job_id for one in answers}
        return answers

    def claim(self, token: int, number: int = 100, queue: str = "default") -> list[Fence]:
        """In the order of their ids."""
        got = self.plain(jobs.claim(self.sql, token, {queue: number}, max_bytes=1 << 24, ttl_s=30.0))
        return [Fence(job.id, job.run_count, token) for job in sorted(got.jobs, key=lambda job: job.id)]

    def end(self, fences: Iterable[Fence], act: str) -> None:
        self.plain(jobs.settle(self.sql, [(fence, Settlement(act=act)) for fence in fences]))

    # ---------------------------------------------------------------------------------------------------- under a fault

    def persist(self, call: Callable[[], T]) -> T | None:
        """Do as a caller should: after an outage once more; None if it was interrupted and gave up."""
        for _ in range(TRIES):
            try:
                return self._heard(call())
            except FATES:
                self.given_up = True
                return None
            except (psycopg.Error, OutageError) as error:
                self._outage(error)
        raise AssertionError(f"one fault, and still no answer after {TRIES} tries: {self.told}")

    def in_turns(self, call: Callable[[], T]) -> T | None:
        """What skips locked rows and is repeated anyhow: after trouble its next turn, when the first has let go."""
        answer = self.persist(call)
        if len(self.told) > 1:
            eventually(self.witness.is_quiet, every=0.002)
            self.persist(call)
        return answer

    async def apersist(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """The same for async code."""
        for _ in range(TRIES):
            try:
                return self._heard(await self._stepped(call()))
            except FATES:
                self._uncancel()
                self.given_up = True
                return None
            except (psycopg.Error, OutageError) as error:
                self._outage(error)
        raise AssertionError(f"one fault, and still no answer after {TRIES} tries: {self.told}")

    def _heard(self, answer: T) -> T:
        self.told.append(repr(answer)[:200])
        return answer

    def _outage(self, error: Exception) -> None:
        """Only what is said to be transient may reach a caller of a healthy database."""
        self.told.append(type(error).__name__)
        if not faults.is_transient(error):
            raise AssertionError(f"a transient fault became {error!r}") from error

    def _uncancel(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while task.cancelling():
            task.uncancel()

    async def _stepped(self, work: Coroutine[Any, Any, T]) -> T:
        return await _suspended(work, self._suspends)

    def _suspends(self) -> None:
        self.suspensions += 1
        if self.way == AWAIT and self.suspensions - 1 == self.at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()


@types.coroutine
def _suspended(work: Awaitable[T], tell: Callable[[], None]) -> Generator[Any, Any, T]:
    """Drive ``work`` by hand; ``tell`` hears of each suspension before it happens."""
    steps = work.__await__()
    thrown: BaseException | None = None
    while True:
        try:
            wanted = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as end:
            result: T = end.value
            return result
        thrown = None
        tell()
        try:
            yield wanted
        except BaseException as error:
            thrown = error


@dataclass(frozen=True)
class Operation:
    """A public operation with its caller.

    ``given`` and ``act`` take the world; ``act`` makes the calls inside `World.faults`. ``at_once`` judges before the
    drain, ``at_last`` after it.
    """

    name: str
    act: Callable[[World], Any]
    given: Callable[[World], None] = lambda _: None
    at_once: Callable[[World], Iterable[str]] = lambda _: ()
    at_last: Callable[[World], Iterable[str]] = lambda _: ()
    spared: tuple[str, ...] = ()
    """Ways that cannot happen to its caller: a thread of the library's own is never interrupted."""

    @property
    def is_async(self) -> bool:
        return asyncio.iscoroutinefunction(self.act)


@dataclass
class Found:
    points: int = 0
    wrong: list[str] = field(default_factory=list)

    def show(self) -> str:
        return f"{len(self.wrong)} wrong at {self.points} points:\n" + "\n".join(self.wrong[:10])


@dataclass(frozen=True)
class Counted:
    """What an operation does when nothing goes wrong."""

    calls: tuple[Call, ...]
    suspensions: int

    def points(self, way: str) -> list[tuple[int, str]]:
        """Where this way can happen, and what is done there."""
        if way == AWAIT:
            return [(at, f"suspension {at}") for at in range(self.suspensions)]
        return [(at, call.text) for at, call in enumerate(self.calls) if call.can(way)]


def count(world: World, operation: Operation) -> Counted:
    """Play it without a fault, which must satisfy every judge."""
    world.way, world.at = None, -1
    wrong = [*_play(world, operation)]
    assert wrong == [], f"without any fault: {wrong}"
    return Counted(tuple(world.injector.calls), world.suspensions)


def explore(world: World, operation: Operation, way: str, counted: Counted) -> Found:
    """Fail it at each of its calls that this way can happen to."""
    found = Found()
    points = counted.points(way)
    for at, text in points:
        world.way, world.at = way, at
        wrong = [*_play(world, operation)]
        if way != AWAIT and world.injector.fired is None:
            wrong.append("the fault did not happen")
        if way == AWAIT and world.suspensions <= at:
            wrong.append("there was no such suspension")
        found.points += 1
        found.wrong += [f"{way} at {at} ({text}), told {world.told}: {one}" for one in wrong]
    return found


def _play(world: World, operation: Operation) -> Iterator[str]:
    world.forget()
    operation.given(world)
    try:
        if operation.is_async:
            asyncio.run(operation.act(world))
        else:
            operation.act(world)
        raised = False
    except Exception as error:
        raised = True
        yield f"it raised {error!r}"
    eventually(world.witness.is_quiet, every=0.002)
    if not raised:
        yield from operation.at_once(world)
    yield from world.witness.judge()
    states = world.witness.states()
    yield from (f"P1, acknowledged and lost: {name}" for name in world.acknowledged - set(states))
    yield from (f"P2, accepted {n} times: {fence}" for fence, n in world.accepted.items() if n > 1)
    yield from (f"P3, begun {n} times: {run}" for run, n in world.begun.items() if n > 1)
    places = [world.app._pool._places._value, *(shelf.places._value for shelf in world.app._apool._shelves)]
    if set(places) != {SIZE}:
        yield f"places of a pool are gone: {places}"
    if not raised:
        yield from operation.at_last(world)
