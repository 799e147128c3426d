"""What a worker asks of the database, call by call on its wire; repeated as the worker repeats it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fencepost.domain.job import Fence
from fencepost.domain.outcome import Settlement
from fencepost.store import jobs, workers
from fencepost.store.flow import Flow
from fencepost.store.views import TaskRow
from fencepost.store.wire import Wire
from points.enqueuing import new
from points.operations import Operation, World
from waiting import eventually

ME, OTHER = 7, 8

Ask = Callable[[World], Flow[Any]]


def calling(ask: Ask, *, warm: bool = True, turns: bool = False) -> Callable[[World], None]:
    """One flow on a worker's wire until it is answered; what was locked by its own lost call is asked for again."""

    def act(world: World) -> None:
        with Wire(world.dsn, deadline=10.0, name="worker") as wire:
            if warm:
                wire.run(jobs.mine(world.sql, OTHER))
            with world.faults():
                again = world.in_turns if turns else world.persist
                answer = again(lambda: wire.run(ask(world)))
                while isinstance(answer, dict) and "busy" in answer.values():
                    answer = world.persist(lambda: wire.run(ask(world)))
                world.notes["answer"] = answer

    return act


def _given(number: int = 5, **options: Any) -> Callable[[World], None]:
    def given(world: World) -> None:
        world.put(*(new(name, **options) for name in "abcdefgh"[:number]))

    return given


def _claimed(number: int = 5, **options: Any) -> Callable[[World], None]:
    def given(world: World) -> None:
        _given(number, **options)(world)
        world.notes["fences"] = world.claim(ME)

    return given


def _places(world: World) -> dict[str, str]:
    return dict(
        world.witness.ask(
            "select job_id, coalesce(label, '') || ' ' || attempts || '/' || run_count from fencepost.jobs order by 1"
        )
    )


def places(**wanted: str) -> Callable[[World], Iterator[str]]:
    """Label, attempts and run_count of each job, unless the caller gave up."""

    def judge(world: World) -> Iterator[str]:
        found = _places(world)
        if found != wanted and not world.given_up:
            yield f"the jobs are {found}"

    return judge


# ----------------------------------------------------------------------------------------------------------------- claim


def _claim(world: World) -> None:
    """As the clerk: after a lost answer it asks what it holds, gives back what it does not know, and claims again."""
    with Wire(world.dsn, deadline=10.0, name="worker") as wire, world.faults():
        got = world.persist(lambda: wire.run(_claiming(world)))
        if got is None:
            return
        known = [Fence(job.id, job.run_count, ME) for job in got.jobs]
        if len(world.told) > 1:
            eventually(world.witness.is_quiet, every=0.002)  # it may come through after its connection is gone
            mine = world.persist(lambda: wire.run(jobs.mine(world.sql, ME)))
            if unknown := [fence for fence in mine or () if fence not in known]:
                world.persist(lambda: wire.run(jobs.settle(world.sql, _released(unknown))))
            more = world.persist(lambda: wire.run(_claiming(world)))
            known += [Fence(job.id, job.run_count, ME) for job in (more.jobs if more else ())]
        for fence in known:
            world.begun[fence.id, fence.run_count] += 1


def _claiming(world: World) -> Flow[jobs.Claimed]:
    return jobs.claim(world.sql, ME, {"default": 3, "other": 3}, max_bytes=1 << 24, ttl_s=30.0)


def _released(fences: Iterable[Fence]) -> list[tuple[Fence, Settlement]]:
    return [(fence, Settlement(act="release")) for fence in fences]


def _all_held(world: World) -> Iterator[str]:
    held = {tuple(row) for row in world.witness.ask("select id, run_count from fencepost.running")}
    if not world.given_up and (held != set(world.begun) or len(held) != 3):
        yield f"held in the database: {held}, known here: {set(world.begun)}"
    if any(row[0] > 1 for row in world.witness.ask("select attempts from fencepost.jobs")):
        yield "a claim whose answer was lost cost an attempt"


# ---------------------------------------------------------------------------------------------------------------- settle

MIXED = (
    Settlement(act="succeed", result='{"n": 1}'),
    Settlement(act="retry", delay_s=60.0, code="E", error="e"),
    Settlement(act="fail", code="F", error="f"),
    Settlement(act="snooze", delay_s=60.0),
    Settlement(act="release"),
    Settlement(act="park"),
    Settlement(act="doubt", code="D"),
    Settlement(act="skip", code="S"),
)
MIXED_ENDS = {"a": "succeeded 1/1", "b": "retrying 1/1", "c": "failed 1/1", "d": "scheduled 0/1", "e": "queued 0/1",
              "f": "parked 0/1", "g": "in_doubt 1/1", "h": "skipped 1/1"}  # fmt: skip


def _settle(world: World) -> None:
    fences = world.notes["fences"]
    items = list(zip(fences, MIXED[: len(fences)], strict=True))
    with Wire(world.dsn, deadline=10.0, name="worker") as wire:
        wire.run(jobs.mine(world.sql, OTHER))
        with world.faults():
            for again in (False, True):
                world.notes["last"] = {"busy"}
                while world.notes["last"] & {"busy"}:  # its own lost call may hold the rows still
                    answers = world.persist(lambda again=again: wire.run(jobs.settle(world.sql, items, again=again)))  # type: ignore[misc]
                    if answers is None:
                        return
                    world.accepted.update(fence for fence in fences if answers[fence].answer == "accepted")
                    world.notes["last"] = {one.answer for one in answers.values()}


def _settled(world: World) -> Iterator[str]:
    """The second time the same ones are sent, each is known."""
    if not world.given_up and world.notes["last"] != {"already"}:
        yield f"what was sent again was answered {world.notes['last']}"


# ---------------------------------------------------------------------------------------------------------- the others


def _stale(world: World) -> None:
    _claimed(3)(world)
    world.witness.ask("update fencepost.running set claimed_at = now() - interval '1 h'")


def _delayed(world: World) -> None:
    world.put(*(new(name, delay_s=60.0) for name in "abc"))
    world.witness.ask("update fencepost.delayed set run_at = now() - interval '1 s'")


def _of_dead_process(world: World) -> Flow[Any]:
    a, b, c, _ = (fence.id for fence in world.notes["fences"])
    return jobs.rescue_process(world.sql, ME, started=[a], overdue=[b], interrupted=[c])


def _told(*wanted: Any) -> Callable[[World], Iterator[str]]:
    def judge(world: World) -> Iterator[str]:
        if not world.given_up and world.notes["answer"] not in wanted:
            yield f"the answer is {world.notes['answer']}"

    return judge


def _each_told(word: str) -> Callable[[World], Iterator[str]]:
    def judge(world: World) -> Iterator[str]:
        if not world.given_up and set(world.notes["answer"].values()) != {word}:
            yield f"the answers are {world.notes['answer']}"

    return judge


def there(query: str, *wanted: Any) -> Callable[[World], Iterator[str]]:
    """What one query of the tests' own finds, unless the caller gave up."""

    def judge(world: World) -> Iterator[str]:
        found = world.witness.one(query)
        if not world.given_up and found not in wanted:
            yield f"{query}: {found}"

    return judge


def both(*judges: Callable[[World], Iterable[str]]) -> Callable[[World], Iterator[str]]:
    def judge(world: World) -> Iterator[str]:
        for one in judges:
            yield from one(world)

    return judge


TASKS = [TaskRow(name="t", max_attempts=3), TaskRow(name="u", version=2)]
BEATEN = "select count(*) from fencepost.running where heartbeat_at is not null and progress is not null"

OPERATIONS = [
    Operation("claim", _claim, given=_given(3), at_once=_all_held),
    Operation("claim behind a key limit", _claim, given=_given(3, concurrency_key="g"),
              at_once=there("select count(*) from fencepost.running", 1)),
    Operation("start", calling(lambda w: jobs.start(w.sql, ME, w.notes["fences"])), given=_claimed(),
              at_once=both(_each_told("ok"), there("select count(started_at) from fencepost.running", 5))),
    Operation("beat", calling(lambda w: jobs.beat(w.sql, w.notes["fences"], progress=["{}"] * 5, workers=[ME])),
              given=_claimed(), at_once=both(_each_told("ok"), there(BEATEN, 5))),
    Operation("settle a mixed batch", _settle, given=_claimed(8), at_once=both(_settled, places(**MIXED_ENDS))),
    Operation("checkpoint", calling(lambda w: jobs.checkpoint(w.sql, w.notes["fences"][0], '{"at": 7}')), given=_claimed(1),
              at_once=both(_told(True), there("select checkpoint ->> 'at' from fencepost.carry", "7"))),
    Operation("promote", calling(lambda w: jobs.promote(w.sql, 100), turns=True), given=_delayed,
              at_once=places(a="queued 0/0", b="queued 0/0", c="queued 0/0")),
    Operation("rescue", calling(lambda w: jobs.rescue(w.sql, limit=100), turns=True), given=_stale,
              at_once=places(**dict.fromkeys("abc", "recovered 1/1"))),
    Operation("rescue_process", calling(_of_dead_process, turns=True), given=_claimed(4),
              at_once=places(a="recovered 1/1", b="retrying 1/1", c="queued 0/1", d="queued 0/1")),
    Operation("mine", calling(lambda w: jobs.mine(w.sql, ME), warm=False), given=_claimed(),
              at_once=lambda w: _told(w.notes["fences"])(w)),
    Operation("register", calling(lambda w: workers.register(w.sql, ME, "h", 1, {"t": 1}, {"default": 2}), warm=False),
              at_once=there(f"select count(*) from fencepost.worker where token = {ME}", 1)),
    Operation("unregister", calling(lambda w: workers.unregister(w.sql, ME)),
              given=lambda w: w.plain(workers.register(w.sql, ME, "h", 1, {"t": 1})),
              at_once=there("select count(*) from fencepost.worker", 0)),
    Operation("publish_tasks", calling(lambda w: workers.publish_tasks(w.sql, TASKS), warm=False),
              at_once=there("select count(*) from fencepost.task", 2)),
]  # fmt: skip
