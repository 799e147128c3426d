"""What operators do, and what they read: cancel, retry, resolve, discard, pause, resume, and the views."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from points.enqueuing import new
from points.operations import Operation, World

ANN = {"actor": "ann", "reason": "because"}

Ask = Callable[[Any], Any]
"""What is asked of a client, sync or async: the answer, or the awaitable of one."""


def _sync(ask: Ask, *, warm: bool) -> Callable[[World], None]:
    def act(world: World) -> None:
        world.app.close()
        if warm:
            world.app.client.status()
        with world.faults():
            world.notes["answer"] = world.persist(lambda: ask(world.app.client))

    return act


def _async(ask: Ask) -> Callable[[World], Any]:
    async def act(world: World) -> None:
        with world.faults():
            world.notes["answer"] = await world.apersist(lambda: ask(world.app.aclient))
        await world.app.aclose()

    return act


# ------------------------------------------------------------------------------------------------------------ the worlds


def _queued(world: World) -> None:
    world.put(new("a", unique_key="k"))


def _running(world: World) -> None:
    _queued(world)
    world.notes["fences"] = world.claim(7)


def _failed(world: World) -> None:
    _running(world)
    world.end(world.notes["fences"], "fail")


def _in_doubt(world: World) -> None:
    _running(world)
    world.end(world.notes["fences"], "doubt")


def _paused(world: World) -> None:
    _queued(world)
    world.app.client.pause_queue("default", **ANN)


# ------------------------------------------------------------------------------------------------------------ the judges


def _became(before: str, after: str, *answers: str) -> Callable[[World], Iterator[str]]:
    """The job is as before or as wanted; who was told of success was told the truth, and the audit has each act.

    ``answers``: the first may be given when nothing went wrong, the others also when an earlier try had taken effect.
    """

    def judge(world: World) -> Iterator[str]:
        state = world.witness.states().get("a", "gone")
        label = world.witness.one("select coalesce(max(cancel_at::text), '') from fencepost.running")
        state = "cancelling" if label else state
        if state != after and not (world.given_up and state == before):
            yield f"it is {state}"
        answer = world.notes["answer"]
        word = answer[0] if isinstance(answer, tuple) else answer
        if word is not None and word not in (answers if len(world.told) > 1 else answers[:1]):
            yield f"the answer is {answer!r}"
        yield from _audited(world, state == after)

    return judge


def _audited(world: World, done: bool) -> Iterator[str]:
    acts = world.witness.one("select count(*) from fencepost.audit where became is distinct from 'finished'")
    asked = (
        max(1, len(world.told)) if world.witness.ask("select from fencepost.running where cancel_at is not null") else 1
    )
    if not int(done) <= acts <= (asked if done else 0):
        yield f"{acts} lines in the audit of an act that was {'done' if done else 'not done'}"


def _switched(paused: bool, *answers: str) -> Callable[[World], Iterator[str]]:
    def judge(world: World) -> Iterator[str]:
        is_paused = world.witness.one(
            "select coalesce(bool_or(paused), false) from fencepost.queue where name = 'default'"
        )
        if is_paused is not paused and not world.given_up:
            yield f"paused: {is_paused}"
        answer = world.notes["answer"]
        if answer is not None and answer not in (answers if len(world.told) > 1 else answers[:1]):
            yield f"the answer is {answer!r}"
        acts = world.witness.one("select count(*) from fencepost.audit")
        wanted = (2 if not paused else 1) if is_paused is paused else (1 if not paused else 0)
        if acts != wanted:
            yield f"{acts} lines in the audit, not {wanted}"

    return judge


def _is_cancelled_at_last(world: World) -> Iterator[str]:
    if world.notes["answer"] and world.witness.states()["a"] != "cancelled":
        yield f"a cancel that was accepted ends as {world.witness.states()['a']}"


def _forget_it(world: World) -> None:
    """A job that may be discarded is not one that must be there."""
    _failed(world)
    world.acknowledged.clear()


def _resolve(verdict: str) -> Ask:
    return lambda c: c.resolve("a", verdict, **ANN)


def _acts() -> Iterator[tuple[str, Ask, Callable[[World], None], Callable[[World], Iterator[str]]]]:
    yield ("cancel what waits", lambda c: c.cancel("a", **ANN), _queued,
           _became("queued", "cancelled", "cancelled", "finished"))  # fmt: skip
    yield ("cancel what runs", lambda c: c.cancel("a", **ANN), _running,
           _became("running", "cancelling", "requested", "requested"))  # fmt: skip
    yield ("retry", lambda c: c.retry("a", **ANN), _failed, _became("failed", "queued", "resubmitted", "active"))
    yield ("discard", lambda c: c.discard("a", **ANN), _forget_it, _became("failed", "gone", "discarded", "unknown"))
    for verdict in ("succeeded", "queued", "failed", "cancelled"):
        yield (f"resolve as {verdict}", _resolve(verdict), _in_doubt,
               _became("in_doubt", verdict, "resolved", "not_in_doubt"))  # fmt: skip
    yield "pause", lambda c: c.pause_queue("default", **ANN), _queued, _switched(True, "paused", "already")
    yield "resume", lambda c: c.resume_queue("default", **ANN), _paused, _switched(False, "resumed", "already")


# ----------------------------------------------------------------------------------------------------------------- views


def _read(world: World) -> Iterator[str]:
    """The same answer with a fault and without; and reading writes nothing."""
    answer = world.notes["answer"]
    if answer is None:
        if not world.given_up:
            yield "no answer"
    elif _names(answer) != _names(_plainly(world)):
        yield f"it read {answer!r}"
    if world.witness.one("select count(*) from public.history") != 1:
        yield "reading wrote something"


def _plainly(world: World) -> Any:
    return world.notes["ask"](world.app.client)


def _names(answer: Any) -> Any:
    """What does not change with the clock."""
    if isinstance(answer, list):
        return [_names(one) for one in answer]
    assert dataclasses.is_dataclass(answer)
    return [getattr(answer, name, None) for name in ("job_id", "state", "name", "token", "counts", "running", "paused")]


def _reading(ask: Ask) -> Callable[[World], None]:
    def given(world: World) -> None:
        _running(world)
        world.notes["ask"] = ask

    return given


VIEWS: dict[str, Ask] = {
    "job": lambda c: c.job("a"),
    "list_jobs": lambda c: c.list_jobs(limit=10),
    "queues": lambda c: c.queues(),
    "workers": lambda c: c.workers(),
    "status": lambda c: c.status(),
}

OPERATIONS = [
    *(
        Operation(name, _sync(ask, warm=True), given=given, at_once=judge,
                  at_last=_is_cancelled_at_last if name.startswith("cancel") else lambda _: ())
        for name, ask, given, judge in _acts()
    ),
    *(Operation(f"a{name}", _async(ask), given=given, at_once=judge) for name, ask, given, judge in _acts()),
    *(Operation(f"read {name}", _sync(ask, warm=False), given=_reading(ask), at_once=_read) for name, ask in VIEWS.items()),
    *(Operation(f"aread {name}", _async(ask), given=_reading(ask), at_once=_read) for name, ask in VIEWS.items()),
]  # fmt: skip
