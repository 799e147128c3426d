"""Plays every order of some moves in every world where they mean something, and judges each."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

from interleave.moves import WORLDS, ways, worlds_of
from interleave.stepper import Move, Stepper, Told, orders
from servers import Database
from sql import guard
from sql.breakpoints import Breakpoints

SET_BACK = """
create function public.set_back() returns void language plpgsql set session_replication_role = replica as $$
declare
  v_table text;
begin
  for v_table in select format('%I.%I', schemaname, tablename) from pg_tables
                  where schemaname = 'fencepost' and tablename <> 'migration' or tablename = 'guard_seen' loop
    execute 'delete from ' || v_table;
  end loop;
  perform setval('fencepost.job_id_seq', 1, false);
end $$;
create function public.drain() returns bigint language plpgsql as $$
begin
  perform set_config('fencepost.guard', 'off', true);  -- several edges in one transaction
  update fencepost.queue set paused = false, paused_at = null;
  update fencepost.gate set lim = 5;
  for round in 1 .. 20 loop
    update fencepost.delayed set run_at = clock_timestamp() - interval '1 s';
    update fencepost.running set claimed_at = clock_timestamp() - interval '1 h', heartbeat_at = null;
    perform fencepost.rescue_v1(100);
    update fencepost.delayed set run_at = clock_timestamp() - interval '1 s';
    perform fencepost.gate_limit_v1(ckey, 5) from fencepost.gate;
    perform fencepost.promote_v1(100);
    perform fencepost.settle_v1(9, array_agg(c.id), array_agg(c.run_count), array_agg('succeed'::text))
       from fencepost.claim_v1(9, '{q}', '{100}') c where c.id is not null having count(*) > 0;
    exit when not exists (select from fencepost.jobs where state in ('queued', 'running'));
  end loop;
  return (select count(*) from fencepost.jobs where state in ('queued', 'running'));
end $$;
"""


class Plan(NamedTuple):
    """Moves in a world, each in one of its ways, in one order."""

    world: str
    moves: tuple[Move, ...]
    order: tuple[int, ...]


@dataclass
class Found:
    """What an exploration saw."""

    played: int = 0
    traces: set[tuple[str, tuple[str, ...], tuple[str, ...]]] = field(default_factory=set)
    """World, moves and what came to an end when: orders that differ only in what waits anyway are one."""
    waited: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def plans(*names: str, most: int | None = None) -> Iterator[Plan]:
    """Every world, way and order of these moves; ``most``: so many steps together, or the orders would be too many."""
    for world in worlds_of(*names):
        for moves in itertools.product(*map(ways, names)):
            steps = [len(move.steps()) for move in moves]
            if most is not None and sum(steps) > most:
                continue
            for order in orders(steps):
                yield Plan(world, moves, order)


def prepare(database: Database) -> None:
    """Functions that stop at their marked lines, the guard of L2, and the way back between two orders."""
    with database.connect() as conn:
        Breakpoints.install(conn)
        guard.install(conn)
        conn.execute(SET_BACK.encode())


def explore(dsn: str, chosen: Sequence[Plan], *, until_wrong: bool = False) -> Found:
    """Play these orders, one after the other; all, or until one goes wrong."""

    async def main() -> Found:
        stepper = await Stepper.open(dsn, max(len(plan.moves) for plan in chosen))
        found = Found()
        try:
            for plan in chosen:
                await _play(stepper, plan, found)
                if until_wrong and found.wrong:
                    break
        finally:
            await stepper.close()
        return found

    return asyncio.run(main())


async def _play(stepper: Stepper, plan: Plan, found: Found) -> None:
    control = stepper.control
    await control.execute(b"select public.set_back()")
    for before in WORLDS[plan.world]:
        await control.execute(before.encode())

    told, trace = await stepper.play(plan.moves, plan.order)

    found.played += 1
    found.traces.add((plan.world, tuple(map(str, plan.moves)), trace))
    found.waited += any(step.endswith("?") for step in trace)
    for move, one in zip(plan.moves, told, strict=True):
        found.answers[f"{move.name}: {_word(one)}"] += 1
    wrong = [*judge(plan.moves, told)]
    for query, meaning in (
        (b"select what, id from fencepost.fsck", "fsck finds"),
        (b"select reason from fencepost.quarantine", "put aside:"),
    ):
        wrong += [f"{meaning} {row}" for row in await (await control.execute(query)).fetchall()]
    left = await (await control.execute(b"select public.drain()")).fetchone()
    if left != (0,):
        wrong.append(f"{left} jobs never end")
    ends = await (await control.execute(b"select state from fencepost.jobs where job_id = 'a'")).fetchall()
    wrong += judge_end(plan.moves, told, ends[0][0] if ends else "gone")
    if wrong:
        heard = [f"{move}: {_word(one)}" for move, one in zip(plan.moves, told, strict=True)]
        found.wrong.append(f"{plan.world}, order {plan.order}: {heard}: {wrong}")


def _word(told: Told) -> str:
    if told.error is not None:
        return type(told.error).__name__
    return ", ".join(str(row[-1]) for row in told.rows if row) or "nothing"


def judge(moves: Sequence[Move], told: Sequence[Told]) -> Iterator[str]:
    """What no order may show, by what the sessions heard."""
    for move, one in zip(moves, told, strict=True):
        if one.error is not None and not _may_end_so(move, one.error):
            yield f"{move}: {one.error}"
    said = [(move, row) for move, one in zip(moves, told, strict=True) if one.error is None for row in one.rows]
    claims: Counter[Any] = Counter(row for move, row in said if move.name == "claim")
    yield from (f"{run} was claimed {count} times" for run, count in claims.items() if count > 1)
    takers = [
        move.name
        for move, row in said
        if (move.name in ("succeed", "retry") and row[0] == "accepted")
        or (move.name == "rescue" and row[:2] == (1, "accepted"))
    ]
    if len(takers) > 1:
        yield f"the first run ended {len(takers)} times: {takers}"
    if any(move.name == "beat" and row[0] == "ok" for move, row in said) and "rescue" in takers:
        yield "a lease was taken away that had just been beaten"
    if len({move.name for move, row in said if move.name.startswith("lead") and row[0]}) > 1:
        yield "two lead at once"
    for move, row in said:
        if move.name.startswith("enqueue") and row[0] is None:
            yield f"{move} has no answer"


def judge_end(moves: Sequence[Move], told: Sequence[Told], end: str) -> Iterator[str]:
    """What must have become of job a when everything has come to rest; the drain lets whatever runs succeed."""
    said = {(move.name, row[0]) for move, one in zip(moves, told, strict=True) for row in one.rows if one.error is None}
    again = any(move.name in ("enqueue a", "resubmit") for move in moves)
    if ("cancel", "requested") in said and ("succeed", "accepted") not in said and not again and end != "cancelled":
        yield f"it was to be cancelled, and is {end}"
    if ("succeed", "accepted") in said and end not in ("succeeded", "gone"):
        yield f"its success was accepted, and it is {end}"


def _may_end_so(move: Move, error: psycopg.Error) -> bool:
    """A lock timeout is an answer; a caller above READ COMMITTED may have to try again."""
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return True
    return isinstance(error, psycopg.errors.SerializationFailure) and move.level in ("repeatable read", "serializable")
