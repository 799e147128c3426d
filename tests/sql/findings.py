"""What the storage must never do: one check for each finding of the design review (A1-A18).

A check is a plain function that takes hands and a connection, so that the tests run it on every server version, and the
mutants against a broken schema.
"""

from __future__ import annotations

import contextlib
import itertools
import random

import psycopg
import pytest

from sql.hands import Conn, Store


async def a01_an_open_transaction_of_a_caller_stops_neither_outcomes_nor_the_pulse(s: Store, c: Conn) -> None:
    """A1: answers are plain reads, and the beat never waits."""
    await s.enq(c, ["k", "x", "y"], keys=["K", None, None])
    rows = await s.claim(c, 1)
    user = await s.conn()
    await user.begin()
    assert await s.enq(user, ["k"], keys=["K"]) == ["exists"]

    assert set((await s.unhindered(s.settle(await s.conn(), 1, rows))).values()) == {"accepted"}

    await user.rollback()
    await s.enq(c, ["m", "n"])
    rows = await s.claim(c, 1)
    await user.begin()
    await s.settle(user, 1, rows[:1], defer=True)  # a completion inside the user's transaction, which stays open
    beaten = await s.unhindered(s.beat(await s.conn(), 1, rows))
    assert beaten == {rows[0]["id"]: "busy", rows[1]["id"]: "ok"}
    await user.rollback()
    assert set((await s.beat(c, 1, rows)).values()) == {"ok"}


async def a02_no_pair_of_operations_deadlocks(s: Store, c: Conn) -> None:
    """A2: one lock order everywhere: settle (keyed) x cancel x enqueue x purge, beat x settle."""
    ids = [f"d{i}" for i in range(60)]
    tokens = itertools.count(1)

    async def work(k: Conn) -> None:
        token = next(tokens)
        await s.enq(k, ids, keys=ids)
        rows = await s.claim(k, token, n=30)
        if rows:
            if random.random() < 0.5:
                await s.beat(k, token, rows)
            await s.settle(k, token, rows)

    async def cancel(k: Conn) -> None:
        await s.cancel(k, random.choice(ids))

    async def purge(k: Conn) -> None:
        await s.purge(k, 30)

    async def again(k: Conn) -> None:
        await s.enq(k, ids[:20], keys=ids[:20])

    await s.enq(c, [f"b{i}" for i in range(1_000)], "beats")  # so many that two beats meet, also on a busy machine
    held = await s.claim(c, 700_000, "beats", 1_000)
    assert len(held) == 1_000

    async def beat(k: Conn) -> None:
        await s.beat(k, 700_000, held)

    async def beat_backwards(k: Conn) -> None:
        await s.beat(k, 700_000, held[::-1])

    assert await s.race(1.5, work, work, cancel, cancel, purge, again, beat, beat_backwards) == []
    assert await s.fsck(c) == []


async def a03_enqueue_answers_every_input_in_order(s: Store, c: Conn) -> None:
    """A3: no empty answer, whoever purges or ends the key's holder meanwhile."""
    assert await s.enq(c, ["dup", "dup"]) == ["created", "exists"]
    empty = 0

    async def work(k: Conn) -> None:
        rows = await s.claim(k, 1, n=20)
        if rows:
            await s.settle(k, 1, rows, "fail")

    async def purge(k: Conn) -> None:
        await s.purge(k, 50)

    async def enqueue(k: Conn) -> None:
        nonlocal empty
        numbers = random.sample(range(12), 6)
        answers = await s.enq(k, [f"p{x}" for x in numbers], keys=[f"K{x % 5}" for x in numbers])
        empty += sum(answer is None for answer in answers)

    assert await s.race(1.2, work, purge, purge, enqueue, enqueue, enqueue) == []
    assert empty == 0
    assert await s.fsck(c) == []


async def a04_a_collision_of_the_internal_id_is_loud(s: Store, c: Conn) -> None:
    """A4: a sequence that fell behind (a failover, a restore) makes no job vanish silently."""
    await s.enq(c, ["a"])
    await c.execute("select setval('fencepost.job_id_seq', 1, false)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await s.enq(c, ["b"])
    await c.execute("select setval('fencepost.job_id_seq', 1, false)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await s.enq(c, ["k1", "k2"], keys=["K1", "K2"])
    assert await s.enq(c, ["b"]) == ["created"]  # beyond the gap it fits again


async def a05_the_token_fences_where_the_run_count_repeats(s: Store, c: Conn) -> None:
    """A5: a claim that a failover lost: the same run_count is handed out again, the old worker stays out."""
    await s.enq(c, ["a"])
    await c.execute("create table saved as select * from fencepost.ready")
    old = await s.claim(c, 111)
    await c.execute("delete from fencepost.running")
    await c.execute("insert into fencepost.ready select * from saved")
    new = await s.claim(c, 222)
    assert old[0]["run_count"] == new[0]["run_count"]

    assert (await s.beat(c, 111, old))[old[0]["id"]] == "lost"
    assert (await s.settle(c, 111, old))[old[0]["id"]] == "lost"
    assert (await s.settle(c, 222, new))[new[0]["id"]] == "accepted"


async def a06_a_gate_row_that_vanishes_loses_no_job(s: Store, c: Conn) -> None:
    """A6: every move counts what it moved."""
    await s.enq(c, [f"g{i}" for i in range(400)], ckeys=[f"k{i % 40}" for i in range(400)])

    async def work(k: Conn) -> None:
        rows = await s.claim(k, 1, n=60)
        if rows:
            await s.settle(k, 1, rows, "release" if random.random() < 0.8 else "succeed")

    async def sweep(k: Conn) -> None:
        await k.fetchval("select fencepost.gate_sweep_v1(100)")

    async def careless(k: Conn) -> None:
        await k.execute("delete from fencepost.gate where used = 0")

    assert await s.race(1.0, work, work, sweep) == []
    await s.race(1.0, work, work, careless, careless)
    assert [row for row in await s.fsck(c) if row["what"] != "gate"] == []


async def a07_a_partitioned_ready_gives_only_what_was_chosen(s: Store, c: Conn) -> None:
    """A7: ids, not ctids, which repeat over partitions."""
    for step in (
        "alter table fencepost.ready rename to ready_old",
        "create table fencepost.ready (like fencepost.ready_old including defaults) partition by list (queue)",
        "create table fencepost.ready_a partition of fencepost.ready for values in ('q')",
        "create table fencepost.ready_b partition of fencepost.ready for values in ('other')",
        "alter table fencepost.ready_old drop constraint ready_pkey",
        "alter table fencepost.ready add constraint ready_pkey primary key (id, queue)",
        "create index on fencepost.ready (queue, fair_key, priority, run_at, id)",
    ):
        await c.execute(step)
    await s.enq(c, [f"o{i}" for i in range(5)], "other")
    await s.enq(c, [f"q{i}" for i in range(5)], "q")

    rows = await s.claim(c, 1, "q", 3)

    assert [row["queue"] for row in rows] == ["q", "q", "q"]


async def a08_one_bad_row_stops_nothing_of_the_others(s: Store, c: Conn) -> None:
    """A8, C12: claim, settle and rescue go on beside rows that nobody expected."""
    await s.enq(c, [f"j{i}" for i in range(8)])
    for wrong in (
        "update fencepost.ready set attempts = 32767 where id = 1",
        "insert into fencepost.ready select * from fencepost.ready where id = 2",
    ):
        with contextlib.suppress(psycopg.errors.CheckViolation, psycopg.errors.UniqueViolation):
            await c.execute(wrong)
    rows = await s.claim(c, 1, n=3)
    assert len(rows) == 3
    await c.execute("delete from fencepost.job where id = 5")
    await c.execute(
        "insert into fencepost.ready (id, queue, run_at) values ($1::bigint, 'q', now() - interval '1 h')",
        rows[0]["id"],
    )
    more = await s.claim(c, 2, n=10)
    by_id = {row["id"]: row for row in more}
    assert set(by_id) == {4, 6, 7, 8}
    await c.execute(
        "insert into fencepost.outcome (id, state, run_count, attempts, crashes, snoozes, finished_at, purge_at) "
        "values (4, 'succeeded', 1, 1, 0, 0, now(), now())"
    )
    assert set((await s.settle(c, 2, [by_id[4], by_id[6]])).values()) == {"accepted"}
    assert set((await s.settle(c, 2, [by_id[7]], "retry", float("inf"))).values()) == {"accepted"}
    assert set((await s.settle(c, 2, [by_id[8]], "retry", float("nan"))).values()) == {"accepted"}
    await s.enq(c, ["u1", "u2", "u3"], "u")
    unstorable = await s.claim(c, 3, "u")
    answers = await s.settle(c, 3, unstorable, results=['{"a":1}', '{"a":"\\u0000"}', '{"b":1}'])
    assert set(answers.values()) == {"accepted"}
    assert sorted([await s.state(c, x) for x in ("u1", "u2", "u3")]) == ["failed", "succeeded", "succeeded"]
    await s.enq(c, [f"r{i}" for i in range(6)], "r")
    lost = await s.claim(c, 4, "r")
    await c.execute("delete from fencepost.job where id = any ($1::bigint[])", [row["id"] for row in lost[:3]])
    await s.stale(c)
    for _ in range(12):
        await s.rescue(c, 1)
    assert await c.fetchval("select count(*) from fencepost.running") == 0
    reasons = [row["reason"] for row in await c.fetch("select reason from fencepost.quarantine")]
    assert sum(reason.startswith("claim") for reason in reasons) == 2
    assert sum(reason.startswith("settle") for reason in reasons) == 1


async def a09_it_works_under_a_publication_for_all_tables(s: Store, c: Conn) -> None:
    """A9: every table has a primary key."""
    await s.enq(c, ["a", "b", "c"])
    await c.execute("create publication everything for all tables")
    try:
        rows = await s.claim(c, 1)
        assert set((await s.settle(c, 1, rows[:2])).values()) == {"accepted"}
        await s.settle(c, 1, rows[2:], "retry", 0.0, "E")
        await s.settle(c, 1, await s.claim(c, 1))
        await s.purge(c)
    finally:
        await c.execute("drop publication everything")


async def a10_a_cancel_request_survives_every_road_back(s: Store, c: Conn) -> None:
    """A10, W8: retry, snooze, release and rescue end in cancelled."""
    await s.enq(c, ["r", "s", "h", "z"])
    by = {row["job_id"]: row for row in await s.claim(c, 1)}
    for job_id in by:
        assert await s.cancel(c, job_id) == "requested"

    await s.settle(c, 1, [by["r"]], "retry", 5.0)
    await s.settle(c, 1, [by["s"]], "snooze", 5.0)
    await s.settle(c, 1, [by["h"]], "release")
    await s.stale(c)
    await s.rescue(c)

    assert [await s.state(c, job_id) for job_id in "rshz"] == ["cancelled"] * 4


async def a11_a_lost_answer_is_told_from_a_lost_lease(s: Store, c: Conn) -> None:
    """A11: the same outcome again is `already`; own retry of an enqueue starts nothing anew; refused writes are kept."""
    await s.enq(c, ["a", "b", "z"])
    rows = await s.claim(c, 5)
    await s.settle(c, 5, rows[:1])
    await s.settle(c, 5, rows[1:2], "retry", 0.0, "E")
    assert set((await s.settle(c, 5, rows[:2])).values()) == {"already"}
    await s.stale(c)
    await s.rescue(c)
    assert set((await s.settle(c, 5, rows[2:])).values()) == {"lost"}
    refused = await c.fetch(
        "select refused, how from fencepost.runs where id = $1::bigint and run_count = 1", rows[2]["id"]
    )
    assert refused == [{"refused": 1, "how": "stale"}]
    await s.enq(c, ["f"], "f")
    failed = await s.claim(c, 5, "f")
    assert await c.fetch("select id from fencepost.running where token = 5 and queue = 'f'")
    await s.settle(c, 5, failed, "fail")
    assert await s.enq(c, ["f"], "f", on_terminal="exists") == ["exists"]
    assert await s.state(c, "f") == "failed"


async def a12_a_completion_in_an_open_transaction_stops_no_claim(s: Store, c: Conn) -> None:
    """A12: gates are taken with SKIP LOCKED; a user's transaction gives its slot back after the commit."""
    await s.enq(c, ["k1", "k2", "k3"], ckeys=["K"] * 3)
    first = await s.claim(c, 1, n=1)
    await s.enq(c, [f"p{i}" for i in range(100)])
    user = await s.conn()
    await user.begin()
    await s.settle(user, 1, first, defer=True)

    one = await s.unhindered(s.claim(await s.conn(), 2, n=52))
    other = await s.unhindered(s.claim(await s.conn(), 3, n=60))

    assert len(one) + len(other) == 100
    await user.commit()
    await s.promote(c)
    assert len(await s.claim(c, 4)) == 1
    assert await s.fsck(c) == []
    await s.enq(c, ["held", "free"], "gates", ckeys=["K", None])
    await user.begin()
    await user.execute("select fencepost.gate_limit_v1('K', 3)")  # somebody holds the gate's row
    taken = await s.unhindered(s.claim(await s.conn(), 5, "gates"))
    assert [row["job_id"] for row in taken] == ["free"]
    await user.rollback()


async def a13_a_key_shared_with_a_paused_queue_does_not_starve_the_other(s: Store, c: Conn) -> None:
    """A13: wake-ups go per queue."""
    await s.enq(c, ["run"], "B", ckeys=["K"])
    held = await s.claim(c, 1, "B")
    await s.enq(c, [f"a{i}" for i in range(50)], "A", ckeys=["K"] * 50)
    assert await s.claim(c, 1, "A", 50) == []
    await s.enq(c, ["b1", "b2"], "B", ckeys=["K"] * 2)
    assert await s.claim(c, 1, "B") == []
    await c.execute("insert into fencepost.queue (name, paused) values ('A', true)")

    for _ in range(2):
        await s.settle(c, 1, held)
        held = await s.claim(c, 1, ["A", "B"])
        assert [row["queue"] for row in held] == ["B"]
    await s.settle(c, 1, held)

    await c.execute("update fencepost.queue set paused = false")
    done = 0
    for _ in range(200):
        rows = await s.claim(c, 1, ["A", "B"])
        assert len(rows) <= 1
        done += len(rows)
        if rows:
            await s.settle(c, 1, rows)
    assert done == 50
    assert await s.fsck(c) == []


async def a14_an_unknown_task_waits_visibly_for_a_worker_that_knows_it(s: Store, c: Conn) -> None:
    """A14, Q8: parked, unspent, woken by registration."""
    await s.enq(c, ["n1"], task="new")
    await s.settle(c, 1, await s.claim(c, 1), "park")
    assert await s.claim(c, 1) == []
    seen = await c.fetch("select label, parked_for, attempts from fencepost.jobs where job_id = 'n1'")
    assert seen == [{"label": "parked", "parked_for": "unknown", "attempts": 0}]

    await c.execute("""select fencepost.register_v1(9, 'h', 1, '{"new": 1}')""")

    assert await c.fetchval("select fencepost.wake_known_v1(10)") == 1
    assert len(await s.claim(c, 9)) == 1


async def a15_a_dead_process_condemns_only_what_it_had_started(s: Store, c: Conn) -> None:
    """A15, R6, W11, W12: crash blame, unspent buffers, and the policies on the lease row."""
    for turn in range(3):
        await c.execute("update fencepost.delayed set run_at = now()")
        await s.promote(c)
        await s.enq(c, ["poison", *(f"n{turn}{k}" for k in range(3))])
        rows = await s.claim(c, turn + 1)
        poison = [row["id"] for row in rows if row["job_id"] == "poison"]
        await c.fetch(
            "select * from fencepost.rescue_process_v1($1::bigint, $2::bigint[], '{}', '{}')", turn + 1, poison
        )
        if turn == 0:
            assert await c.fetchval("select count(*) from fencepost.ready") == 4  # the first crash runs again at once
    ended = await c.fetch("select j.job_id, o.error_code from fencepost.outcome o join fencepost.job j using (id)")
    assert ended == [{"job_id": "poison", "error_code": "CRASH_LOOP"}]
    assert await c.fetchval("select max(attempts) from fencepost.ready") == 0
    await c.execute(
        "insert into fencepost.task (name, on_lost, at_most_once) "
        "values ('doubt', 'in_doubt', false), ('fail', 'fail', false), ('once', 'requeue', true)"
    )
    for task in ("doubt", "fail", "once"):
        await s.enq(c, [task], "p", task=task, keys=[task])
    await s.enq(c, ["once2"], "p", task="once")
    once = [row for row in await s.claim(c, 50, "p") if row["job_id"] == "once"]
    await s.start(c, 50, once)
    await s.stale(c)
    await s.rescue(c)
    states = {job_id: await s.state(c, job_id) for job_id in ("doubt", "fail", "once", "once2")}
    assert states == {"doubt": "in_doubt", "fail": "failed", "once": "in_doubt", "once2": "queued"}
    assert await s.enq(c, ["doubt", "other"], "p", keys=["doubt"] * 2, task="doubt") == ["in_doubt", "skipped"]
    assert await s.enq(c, ["fail"], "p", keys=["fail"], task="fail") == ["resubmitted"]
    assert await c.fetchval("select fencepost.resolve_v1('once', 'queued', 'me')") == "resolved"
    assert await c.fetchval("select fencepost.resolve_v1('doubt', 'succeeded', 'me')") == "resolved"
    assert await s.fsck(c) == []


async def a16_notify_is_optional_and_constant(s: Store, c: Conn) -> None:
    """A16: off unless asked, one a transaction, none for a duplicate."""
    listener = await s.conn()
    await listener.execute("listen fencepost")

    async def heard() -> int:
        return len([n async for n in listener.inner.notifies(timeout=0.15)])

    await s.enq(c, ["a"])
    assert await heard() == 0
    await c.begin()
    await s.enq(c, ["b", "c"], notify=True)
    await s.enq(c, ["d"], notify=True)
    await c.commit()
    assert await heard() == 1
    await s.enq(c, ["b"], notify=True)
    assert await heard() == 0


async def a17_delays_count_from_now_inside_a_long_transaction(s: Store, c: Conn) -> None:
    """A17: clock_timestamp(), not the transaction's start."""
    await s.enq(c, ["a"])
    rows = await s.claim(c, 1)
    await c.begin()
    await c.execute("select pg_sleep(0.5)")
    await s.settle(c, 1, rows, "retry", 0.4)
    await s.enq(c, ["e"], opts={"delay_s": 0.4})
    await c.commit()
    await s.promote(c)
    assert await s.claim(c, 1) == []

    await c.execute("select pg_sleep(0.45)")
    await s.promote(c)
    assert len(await s.claim(c, 1)) == 2


async def a18_retention_ends_no_window_and_no_doubt(s: Store, c: Conn) -> None:
    """A18, L4, L7: and a snooze keeps the last error, progress is no checkpoint, the daily counts stay."""
    window = {"dedup_s": 40 * 86400}
    await s.enq(c, ["win", "plain"], opts=window)
    await s.enq(c, ["dbt", "bad"], "d")
    await s.settle(c, 1, await s.claim(c, 1))
    doubtful = await s.claim(c, 1, "d")
    await s.settle(c, 1, doubtful[:1], "doubt")
    await s.settle(c, 1, doubtful[1:], "fail")
    await s.purge(c)
    assert await s.enq(c, ["win"], opts=window) == ["deduplicated"]
    assert await s.enq(c, ["dbt"], "d") == ["in_doubt"]
    await s.enq(c, ["c"], "c")
    first = await s.claim(c, 1, "c")
    await s.beat(c, 1, first, ['{"pct": 50}'])
    await s.settle(c, 1, first, "retry", 0.0, "E1", "boom")
    second = await s.claim(c, 1, "c")
    assert second[0]["checkpoint"] is None
    save = "select fencepost.checkpoint_v1(1, $1::bigint, $2::int, $3::jsonb)"
    assert await c.fetchval(save, second[0]["id"], 2, '{"row": 7}')
    assert not await c.fetchval(save, second[0]["id"], 1, "{}")
    await s.settle(c, 1, second, "snooze", 0.0)
    third = await s.claim(c, 1, "c")
    assert third[0]["checkpoint"] == '{"row": 7}'
    assert await c.fetchval("select error from fencepost.carry") == "boom"
    await s.settle(c, 1, third, "fail", 0.0, "X")
    await c.execute("update fencepost.outcome set purge_at = now() where purge_at is not null")
    await c.fetchval("select fencepost.purge_v1(100)")
    assert await c.fetchval("select sum(n) from fencepost.daily") == 4
    assert await c.fetchval("select count(*) from fencepost.job") == 1  # the doubt stays
