"""Every operation of the storage at once, on connections of their own; then what must be true of what they left.

Parties: callers (single, bulk, in open transactions that may roll back), workers with a pulse of their own (all acts, late
and wrong fences, effects that commit with the outcome, deaths), the leader's duties, operators, and a monitor that looks
at every moment. What each was told is written down, and compared with the tables at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import psycopg

from sql.hands import Conn, Row, Store

TASKS = ("plain", "plain", "doubt", "once", "fail")
QUEUES = ("default", "paused at times", "fair")
NAMES = 3000
MOST_OF_A_KEY = 3
CALLERS = frozenset({"caller", "slow caller"})
ACTS = {
    "succeed": 60, "retry": 12, "fail": 6, "snooze": 5, "release": 5, "skip": 3, "doubt": 3, "park": 2, "cancel": 2, "lost": 1,
    "timeout": 1,
}  # fmt: skip
MUST_HAPPEN = (
    "created", "exists", "deduplicated", "resubmitted", "skipped", "rolled back", "claimed", "started", "beaten", "checkpoint",
    "accepted", "already", "lost", "wrong fence refused", "effect", "effect rolled back", "died", "process rescued", "rescued",
    "promoted", "purged", "discarded", "retention", "cancelled", "requested", "retried", "resolved", "paused", "resumed",
    "expired", "woken", "fsck", *(f"act {act}" for act in ACTS),
)  # fmt: skip

SETUP = """
insert into fencepost.task (name, on_lost, at_most_once, ttl_s, max_attempts, max_crashes, dedup_s) values
  ('plain', 'requeue', false, 1, 4, 3, 1), ('doubt', 'in_doubt', false, 1, 3, 3, 0),
  ('once', 'requeue', true, 1, 2, 3, 0), ('fail', 'fail', false, 1, 3, 3, 1);
insert into fencepost.queue (name, fair) values ('fair', true);
insert into fencepost.gate (ckey, lim) select 'g' || n, 1 + n % 3 from generate_series(0, 14) n;
create table public.effect (id bigint, run_count int, token bigint);
"""


@dataclass
class Heard:
    """What the parties were told, and what went wrong; ``counts`` by word, ``clashes`` by (operation, kind of error)."""

    counts: Counter[str] = field(default_factory=Counter)
    clashes: Counter[tuple[str, str]] = field(default_factory=Counter)
    deadlocks: list[str] = field(default_factory=list)
    callers_own: list[str] = field(default_factory=list)
    created: set[int] = field(default_factory=set)
    tokens: dict[tuple[int, int], int] = field(default_factory=dict)
    accepted: dict[tuple[int, int], str] = field(default_factory=dict)
    checkpoints: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    started_once: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def never_happened(self) -> list[str]:
        return [word for word in MUST_HAPPEN if not self.counts[word]]


class Party:
    """One connection, known by the role that it plays and by the operation that it is in."""

    def __init__(self, soak: Soak, role: str, conn: Conn) -> None:
        self.soak, self.role, self.conn = soak, role, conn
        self.doing = "nothing"

    @contextlib.asynccontextmanager
    async def step(self, operation: str) -> AsyncIterator[Conn]:
        """Name the operation, so that an error is counted under it."""
        self.doing = operation
        yield self.conn

    async def forever(self, turn: Callable[[Party], Awaitable[None]]) -> None:
        heard = self.soak.heard
        while not self.soak.is_over:
            try:
                await turn(self)
            except psycopg.errors.DeadlockDetected as error:
                heard.clashes[self.doing, "deadlock"] += 1
                self._note(error)
                await self._reset()
            except psycopg.errors.LockNotAvailable:
                heard.clashes[self.doing, "lock timeout"] += 1
                await self._reset()
            except psycopg.errors.SerializationFailure:
                heard.clashes[self.doing, "serialization"] += 1
                await self._reset()

    def _note(self, error: psycopg.Error) -> None:
        """A deadlock among callers only is what Q11 documents; every other one is our own."""
        detail = error.diag.message_detail or ""
        roles = {self.soak.roles.get(int(pid), "?") for pid in re.findall(r"[Pp]rocess (\d+)", detail)}
        where = self.soak.heard.callers_own if roles <= CALLERS else self.soak.heard.deadlocks
        where.append(f"{self.doing} {sorted(roles)}: {detail} {error.diag.context}")

    async def _reset(self) -> None:
        await self.conn.inner.rollback()


class Soak:
    """Run it once: ``await Soak(dsn, seconds, seed).run()``."""

    def __init__(self, dsn: str, seconds: float, seed: int) -> None:
        self.store = Store(dsn)
        self.seconds = seconds
        self.random = random.Random(seed)
        self.heard = Heard()
        self.roles: dict[int, str] = {}
        self.ends = 0.0

    async def run(self) -> Heard:
        try:
            conn = await self.store.conn()
            await conn.inner.execute(SETUP)
            await conn.execute(
                "select fencepost.register_v1(1::bigint, 'h', 1, $1::jsonb)",
                json.dumps(dict.fromkeys(TASKS, 1)),
            )
            self.ends = time.monotonic() + self.seconds
            await asyncio.gather(*[task async for task in self._parties()])
            return self.heard
        finally:
            await self.store.close()

    async def _parties(self) -> AsyncIterator[Coroutine[Any, Any, None]]:
        turns: list[tuple[str, Callable[[Party], Awaitable[None]]]] = [
            *[("caller", caller)] * 2, *[("slow caller", slow_caller)] * 2, ("leader", duties), ("second leader", duties),
            *[("operator", operator)] * 2, ("cleaner", cleaner), ("monitor", monitor),
        ]  # fmt: skip
        for role, turn in turns:
            yield (await self.party(role)).forever(turn)
        for _ in range(4):
            yield Worker(await self.party("worker"), await self.party("pulse")).forever()

    async def party(self, role: str) -> Party:
        made = Party(self, role, await self.store.conn())
        self.roles[made.conn.pid] = role
        return made

    @property
    def is_over(self) -> bool:
        """The time is up and everything has happened once; on a slow machine it gets four times as long for that."""
        now = time.monotonic()
        return now >= self.ends and (not self.heard.never_happened() or now >= self.ends + 3 * self.seconds)

    def chance(self, share: float) -> bool:
        return self.random.random() < share


# ------------------------------------------------------------------------------------------------------------ callers


def batch(soak: Soak, size: int) -> dict[str, list[Any]]:
    """Jobs with everything that a caller may ask for. A job_id always has the same task and unique key."""
    rng = soak.random
    numbers = [rng.randrange(NAMES) for _ in range(size)]
    queue = rng.choice((*QUEUES, "default"))
    opts: list[str] = []
    for _ in numbers:
        o: dict[str, Any] = {"tenant": f"t{rng.randrange(6)}"} if queue == "fair" else {}
        if soak.chance(0.1):
            o["delay_s"] = rng.random()
        if soak.chance(0.03):
            o["start_by"] = "2020-01-01T00:00:00+00:00"
        if soak.chance(0.02):
            o["finish_by"] = "2020-01-01T00:00:00+00:00"
        if soak.chance(0.05):
            o["max_attempts"] = 1
        opts.append(json.dumps(o))
    return {
        "job_id": [f"j{n}" for n in numbers],
        "task": [TASKS[n % 5] for n in numbers],
        "queue": [queue] * size,
        "key": [f"u{n % 67}" if n % 10 < 3 else None for n in numbers],
        "ckey": [f"g{rng.randrange(20)}" if soak.chance(0.4) else None for _ in numbers],
        "opts": opts,
    }


async def enqueue(conn: Conn, jobs: dict[str, list[Any]]) -> list[Row]:
    rows = await conn.fetch(
        "select answer, id from fencepost.enqueue_v1($1::text[], $2::text[], array_fill('{}'::text, array[$3::int]),"
        " p_queue => $4::text[], p_unique_key => $5::text[], p_ckey => $6::text[], p_opts => $7::jsonb[]) order by ord",
        jobs["job_id"], jobs["task"], len(jobs["job_id"]), jobs["queue"], jobs["key"], jobs["ckey"], jobs["opts"],
    )  # fmt: skip
    assert len(rows) == len(jobs["job_id"])
    assert all(row["answer"] for row in rows)
    return rows


def note_enqueued(heard: Heard, rows: list[Row]) -> None:
    """Only after the commit: until then an answer is no promise (Q11)."""
    heard.counts.update(row["answer"] for row in rows)
    heard.created.update(row["id"] for row in rows if row["answer"] == "created")


async def caller(p: Party) -> None:
    """One call, one commit."""
    async with p.step("enqueue") as c:
        rows = await enqueue(c, batch(p.soak, p.soak.random.choice((1, 1, 5, 40))))
    note_enqueued(p.soak.heard, rows)
    await asyncio.sleep(p.soak.random.random() * 0.01)


async def slow_caller(p: Party) -> None:
    """A transaction of the caller's own with one or two calls, kept open for a while, often rolled back."""
    rng, told = p.soak.random, []
    async with p.step("enqueue in a transaction") as c:
        await c.begin()
        for _ in range(rng.choice((1, 1, 2))):
            told += await enqueue(c, batch(p.soak, rng.choice((1, 3, 10))))
        await asyncio.sleep(rng.random() * rng.choice((0.01, 0.2)))
        if p.soak.chance(0.4):
            await c.rollback()
            p.soak.heard.counts["rolled back"] += 1
        else:
            await c.commit()
            note_enqueued(p.soak.heard, told)


# ------------------------------------------------------------------------------------------------------------ workers


class Worker:
    """Claims, marks, beats beside its other calls, checkpoints, ends runs in every way; sometimes it dies or dawdles."""

    def __init__(self, party: Party, pulse: Party) -> None:
        self.party, self.pulse, self.soak = party, pulse, party.soak
        self.heard = party.soak.heard
        self.token, self.running = 0, list[Row]()

    async def forever(self) -> None:
        await asyncio.gather(self.party.forever(self.turn), self.pulse.forever(self.beat))

    async def beat(self, p: Party) -> None:
        rows, rng = list(self.running), self.soak.random
        if rows:
            rng.shuffle(rows)
            async with p.step("heartbeat") as c:
                progress = [rng.choice(('{"n": 1}', "no json")) if rng.random() < 0.05 else '{"n": 2}' for _ in rows]
                answers = await self.soak.store.beat(c, self.token, rows, progress)
            self.heard.counts["beaten"] += sum(answer == "ok" for answer in answers.values())
        await asyncio.sleep(0.02)

    async def turn(self, p: Party) -> None:
        self.running, self.token = [], self.soak.random.getrandbits(62)
        async with p.step("promote") as c:
            self.heard.counts["promoted"] += await self.soak.store.promote(c)
        rows = await self.claim(p)
        if not rows:
            await asyncio.sleep(0.01)
            return
        if self.soak.chance(0.05):  # before any start mark
            self.heard.counts["died"] += len(rows)
            return
        rows = await self.start(p, rows)
        if self.soak.chance(0.06):
            await self.die(p, rows)
            return
        self.running = [row for row in rows if not self.soak.chance(0.2)]
        if self.soak.chance(0.03):  # its leases are rescued meanwhile
            self.running = []
            await asyncio.sleep(1.3)
        await self.checkpoint(p, rows)
        if self.soak.chance(0.2):
            await self.wrong_fences(p, rows)
        rows = await self.effects(p, rows)
        if rows:
            await self.settle(p, rows)

    async def claim(self, p: Party) -> list[Row]:
        async with p.step("claim") as c:
            rows = await self.soak.store.claim(c, self.token, QUEUES, self.soak.random.choice((1, 5, 30)))
        for row in rows:
            run = row["id"], row["run_count"]
            assert run not in self.heard.tokens, f"{run} was handed out twice"
            assert row["checkpoint"] is None or row["checkpoint"] in self.heard.checkpoints[row["id"]]
            self.heard.tokens[run] = self.token
        self.heard.counts["claimed"] += len(rows)
        return rows

    async def start(self, p: Party, rows: list[Row]) -> list[Row]:
        once = [row for row in rows if row["at_most_once"]]
        if not once:
            return rows
        async with p.step("start") as c:
            answers = await self.soak.store.start(c, self.token, once)
        for row in once:
            if answers[row["id"]] == "ok":
                self.heard.started_once[row["id"]].add(row["run_count"])
        self.heard.counts["started"] += len(once)
        return [row for row in rows if answers.get(row["id"], "ok") == "ok"]

    async def die(self, p: Party, rows: list[Row]) -> None:
        """The process ends; sometimes its supervisor says what it had started, else the reaper finds out."""
        self.heard.counts["died"] += len(rows)
        if rows and self.soak.chance(0.5):
            async with p.step("rescue_process") as c:
                found = await self.soak.store.rescue_process(c, self.token, started=rows[:2], overdue=rows[2:3])
            self.heard.counts["process rescued"] += len(found)

    async def checkpoint(self, p: Party, rows: list[Row]) -> None:
        if not rows or not self.soak.chance(0.2):
            return
        row, data = rows[0], json.dumps({"n": self.soak.random.randrange(1000)})
        self.heard.checkpoints[row["id"]].add(data)
        async with p.step("checkpoint") as c:
            kept = await c.fetchval(
                "select fencepost.checkpoint_v1($1::bigint, $2::bigint, $3::int, $4::jsonb)",
                self.token, row["id"], row["run_count"], data,
            )  # fmt: skip
        self.heard.counts["checkpoint"] += bool(kept)

    async def wrong_fences(self, p: Party, rows: list[Row]) -> None:
        """Another token, another run: refused, whoever holds the job by now."""
        async with p.step("settle, wrong fence") as c:
            answers = [*(await self.soak.store.settle(c, self.token ^ 1, rows)).values()]
            ahead = [{**row, "run_count": row["run_count"] + 1} for row in rows]
            answers += [*(await self.soak.store.settle(c, self.token, ahead)).values()]
        assert not {"accepted", "already"} & set(answers)
        self.heard.counts["wrong fence refused"] += answers.count("lost")

    async def effects(self, p: Party, rows: list[Row]) -> list[Row]:
        """E1: an effect and the outcome in one transaction of the user's; gives what is still to be settled."""
        left = []
        for row in rows:
            if not self.soak.chance(0.06):
                left.append(row)
                continue
            async with p.step("settle in a transaction") as c:
                await c.begin()
                answers = await self.soak.store.settle(c, self.token, [row], defer=True)
                if answers[row["id"]] == "accepted":
                    values = row["id"], row["run_count"], self.token
                    await c.execute("insert into public.effect values ($1::bigint, $2::int, $3::bigint)", *values)
                await asyncio.sleep(self.soak.random.random() * 0.05)
                if self.soak.chance(0.3):
                    await c.rollback()
                    self.heard.counts["effect rolled back"] += 1
                    left.append(row)
                    continue
                await c.commit()
            self.heard.counts["effect"] += 1
            self.note_settled(answers, [row], ["succeed"])
        return left

    async def settle(self, p: Party, rows: list[Row]) -> None:
        rng = self.soak.random
        acts = rng.choices(list(ACTS), list(ACTS.values()), k=len(rows))
        delay = rng.choice((0.0, 0.05, 0.1, float("inf") if self.soak.chance(0.02) else 0.2))
        results = ['"\\u0000"' if self.soak.chance(0.01) else '{"r": 1}' for _ in rows]
        async with p.step("settle") as c:
            answers = await self.soak.store.settle(c, self.token, rows, acts, delay, "E", "e", results)
        self.note_settled(answers, rows, acts)
        if self.soak.chance(0.1):  # as if the answer had been lost
            async with p.step("settle again") as c:
                again = await self.soak.store.settle(c, self.token, rows, acts, delay, "E", "e", results)
            assert set(again.values()) <= {"already", "lost"} or "busy" in answers.values()
            self.note_settled(again, rows, acts)

    def note_settled(self, answers: dict[int, str], rows: list[Row], acts: list[str]) -> None:
        for row, act in zip(rows, acts, strict=True):
            answer = answers[row["id"]]
            self.heard.counts[answer] += 1
            if answer == "accepted":
                run = row["id"], row["run_count"]
                assert run not in self.heard.accepted, f"{run} was accepted twice"
                self.heard.accepted[run] = act
                self.heard.counts[f"act {act}"] += 1


# ------------------------------------------------------------------------------------------------- duties and people


async def duties(p: Party) -> None:
    """Everything that a leader does; two of them, since a leader that was away a moment too long does not know it."""
    counts, store = p.soak.heard.counts, p.soak.store
    async with p.step("rescue") as c:
        counts["rescued"] += await store.rescue(c, 200)
    async with p.step("expire") as c:
        counts["expired"] += await c.fetchval("select fencepost.expire_v1(50)")
    async with p.step("wake_known") as c:
        counts["woken"] += await c.fetchval("select fencepost.wake_known_v1(100)")
    async with p.step("gate_sweep") as c:
        await c.fetchval("select fencepost.gate_sweep_v1(5)")
    async with p.step("gate_recount") as c:
        wrong = await c.fetchval("select fencepost.gate_recount_v1($1::text[])", ["g3", "g1", "g2"])
    assert wrong == 0
    await asyncio.sleep(0.05)


async def cleaner(p: Party) -> None:
    """Retention: what is over goes, in batches."""
    counts = p.soak.heard.counts
    async with p.step("retention") as c:
        task = p.soak.random.choice(TASKS)
        await c.execute("update fencepost.task set keep_ok_s = keep_ok_s + 1 where name = $1", task)
        row = (await c.fetch("select * from fencepost.retention_v1($1, 200, 0)", task))[0]
        counts["retention"] += row["changed"]
    async with p.step("make due") as c:
        await c.execute(
            "update fencepost.outcome set purge_at = now() where id = any (array(select id from fencepost.outcome"
            " where purge_at > now() order by id limit 10 for update skip locked))"
        )
    async with p.step("purge") as c:
        counts["purged"] += await c.fetchval("select fencepost.purge_v1(50)")
    await asyncio.sleep(0.03)


async def operator(p: Party) -> None:
    rng, counts = p.soak.random, p.soak.heard.counts
    job_id, what = f"j{rng.randrange(NAMES)}", rng.random()
    if what < 0.4:
        async with p.step("cancel") as c:
            counts[await p.soak.store.cancel(c, job_id)] += 1
    elif what < 0.6:
        async with p.step("retry") as c:
            answer = await c.fetchval("select answer from fencepost.resubmit_v1($1, 'op')", job_id)
        counts["retried"] += answer == "resubmitted"
    elif what < 0.75:
        await resolve(p)
    elif what < 0.8:
        async with p.step("discard") as c:
            counts[await c.fetchval("select fencepost.discard_v1($1, 'op')", job_id)] += 1
    elif what < 0.9:
        async with p.step("pause or resume") as c:
            counts[
                await c.fetchval(
                    "select fencepost.queue_pause_v1($1, $2::boolean, 'op')", QUEUES[1], rng.random() < 0.5
                )
            ] += 1
    elif what < 0.93:
        async with p.step("queue_fair") as c:
            await c.fetchval("select fencepost.queue_fair_v1('fair', $1::boolean)", rng.random() < 0.7)
    else:
        async with p.step("gate_limit") as c:
            limit = rng.randint(1, MOST_OF_A_KEY)
            await c.fetchval("select fencepost.gate_limit_v1($1, $2::int)", f"g{rng.randrange(20)}", limit)
    await asyncio.sleep(rng.random() * 0.02)


async def resolve(p: Party) -> None:
    async with p.step("resolve") as c:
        job_id = await c.fetchval(
            "select j.job_id from fencepost.outcome o join fencepost.job j using (id) where o.state = 'in_doubt'"
            " order by random() limit 1"
        )
        if job_id is not None:
            verdict = p.soak.random.choice(("succeeded", "queued", "failed", "cancelled"))
            answer = await c.fetchval("select fencepost.resolve_v1($1, $2, 'op')", job_id, verdict)
            p.soak.heard.counts[answer] += 1


async def monitor(p: Party) -> None:
    """Every snapshot is consistent, not only the last."""
    async with p.step("fsck") as c:
        assert await p.soak.store.fsck(c) == []
        assert await c.fetch(KEYS_HELD_TWICE) == []
        assert await c.fetch(TOO_MANY_OF_A_KEY, MOST_OF_A_KEY) == []
    p.soak.heard.counts["fsck"] += 1
    await asyncio.sleep(0.1)


KEYS_HELD_TWICE = """
select j.task, j.unique_key, count(*) from fencepost.job j left join fencepost.outcome o on o.id = j.id
 where j.unique_key is not null and (o.id is null or o.state = 'in_doubt')
 group by 1, 2 having count(*) > 1"""

TOO_MANY_OF_A_KEY = """
select ckey, count(*) from fencepost.running where ckey is not null group by 1 having count(*) > $1::int"""


# --------------------------------------------------------------------------------------------------- pair by pair

HOT = [f"hot{n}" for n in range(12)]
KEYS = [f"u{n}" for n in range(12)]


class Pairs:
    """The operations one by one, on a dozen jobs that everybody wants, with unique keys and two concurrency keys."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.random = store, random.Random(seed)

    def operations(self) -> dict[str, Callable[[Conn], Awaitable[object]]]:
        return {
            "enqueue": self.enqueue, "enqueue, rolled back": self.enqueue_in_a_transaction, "work": self.work,
            "settle in a transaction": self.settle_in_a_transaction, "die": self.die, "beat": self.beat, "cancel": self.cancel,
            "retry": self.retry, "resolve": self.resolve, "discard": self.discard, "purge": self.purge,
            "promote": self.store.promote, "rescue": self.store.rescue, "sweep": self.sweep, "gates": self.gates,
            "queue": self.queue,
        }  # fmt: skip

    async def enqueue(self, c: Conn) -> None:
        some = sorted(self.random.sample(range(12), 6), key=lambda _: self.random.random())
        await self.store.enq(c, [HOT[n] for n in some], keys=[KEYS[n] for n in some], ckeys=["g1", "g2", None] * 2)

    async def enqueue_in_a_transaction(self, c: Conn) -> None:
        await c.begin()
        await self.enqueue(c)
        await c.rollback()

    async def claim(self, c: Conn) -> tuple[int, list[Row]]:
        token = self.random.getrandbits(62)
        return token, await self.store.claim(c, token, n=4)

    async def work(self, c: Conn) -> None:
        token, rows = await self.claim(c)
        if rows:
            self.random.shuffle(rows)
            acts = self.random.choices(["succeed", "fail", "retry", "snooze", "release", "doubt", "park"], k=len(rows))
            await self.store.settle(c, token, rows, acts)

    async def settle_in_a_transaction(self, c: Conn) -> None:
        token, rows = await self.claim(c)
        await c.begin()
        for row in rows:
            await self.store.settle(c, token, [row], defer=True)
        await (c.commit() if self.random.random() < 0.5 else c.rollback())

    async def die(self, c: Conn) -> None:
        token, rows = await self.claim(c)
        if rows:
            await self.store.rescue_process(c, token, started=rows[:2], overdue=rows[2:3])

    async def beat(self, c: Conn) -> None:
        """Other people's leases: of all that run, in any order."""
        rows = await c.fetch("select id, run_count, token from fencepost.running order by random()")
        for token in {row["token"] for row in rows}:
            mine = [row for row in rows if row["token"] == token]
            await self.store.beat(c, token, mine)
            await self.store.start(c, token, mine)

    async def cancel(self, c: Conn) -> None:
        await self.store.cancel(c, self.random.choice(HOT))

    async def retry(self, c: Conn) -> None:
        await c.execute("select fencepost.resubmit_v1($1, 'op')", self.random.choice(HOT))

    async def resolve(self, c: Conn) -> None:
        verdict = self.random.choice(["succeeded", "queued", "failed"])
        await c.execute("select fencepost.resolve_v1($1, $2, 'op')", self.random.choice(HOT), verdict)

    async def discard(self, c: Conn) -> None:
        await c.execute("select fencepost.discard_v1($1, 'op')", self.random.choice(HOT))

    async def purge(self, c: Conn) -> None:
        await self.store.purge(c, 5)

    async def sweep(self, c: Conn) -> None:
        await c.execute(
            "select fencepost.expire_v1(10), fencepost.wake_known_v1(10), fencepost.retention_v1('t', 10, 0)"
        )

    async def gates(self, c: Conn) -> None:
        await c.execute("select fencepost.gate_recount_v1('{g2,g1}')")
        await c.execute("select fencepost.gate_sweep_v1(5)")
        await c.execute(
            "select fencepost.gate_limit_v1($1, $2::int)", self.random.choice(["g1", "g2"]), self.random.randint(1, 3)
        )

    async def queue(self, c: Conn) -> None:
        await c.execute("select fencepost.queue_pause_v1('q', $1::boolean, 'op')", self.random.random() < 0.2)
        await c.execute("select fencepost.queue_fair_v1('q', $1::boolean)", self.random.random() < 0.5)
        await c.execute("select fencepost.queue_pause_v1('q', false, 'op')")
