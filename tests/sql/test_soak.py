"""All operations at once against real servers, then every invariant: no deadlock of our own, no job lost, one run at a time,
no key held twice, nothing for ``fsck`` to find (SPEC L1, Q3, Q4, Q11, C1, C3, C7, E1, W12)."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter

import pytest

from servers import Database
from sql.hands import Conn, Store, perform
from sql.soak import QUEUES, Heard, Pairs, Soak

MAY_WAIT = {
    "settle", "settle again", "settle, wrong fence", "settle in a transaction", "checkpoint", "start", "cancel", "retry",
    "resolve", "discard", "gate_limit", "gate_recount", "queue_fair", "promote", "enqueue", "enqueue in a transaction",
}  # fmt: skip
"""What may end in a lock timeout; a claim, a beat, a rescue, a purge wait for nobody."""

TAKEN = {"stale", "in_doubt", "failed", "cancelled"}
ROADS = {"failed", "cancelled"}  # the policy or a request made it an end
ENDS = {
    "succeed": {"succeeded", "failed"}, "fail": {"failed"}, "skip": {"skipped"}, "doubt": {"in_doubt"}, "cancel": {"cancelled"},
    "retry": {"retry"} | ROADS, "snooze": {"snooze", "retry"} | ROADS, "release": {"release", "stale"} | TAKEN,
    "park": {"park", "stale"} | TAKEN, "lost": TAKEN, "timeout": {"timeout"} | TAKEN,
    "taken away": {"release", "timeout"} | TAKEN,
}  # fmt: skip
"""How a run may be recorded, by what its worker was told to have ended it with; a result may be unstorable."""

SEED = int(os.environ.get("FENCEPOST_SOAK_SEED", "0")) or int.from_bytes(os.urandom(4))


def soaked(database: Database, seconds: float) -> Heard:
    """Let the soak run, and then whatever is left end by the ordinary duties and one worker."""

    async def main() -> Heard:
        return await Soak(database.dsn, seconds, SEED).run()

    heard = asyncio.run(asyncio.wait_for(main(), 4 * seconds + 30))
    perform(database.dsn, drain)
    return heard


async def drain(s: Store, c: Conn) -> None:
    await c.execute("select fencepost.queue_pause_v1($1, false, 'op')", QUEUES[1])
    for _ in range(400):
        await c.execute("update fencepost.delayed set run_at = now()")
        await c.execute("update fencepost.running set heartbeat_at = now() - interval '1 h'")
        await c.execute("update fencepost.worker set heartbeat_at = now()")  # it lives, or what it knows is not woken
        await s.rescue(c, 5000)
        await s.promote(c, 5000)
        await c.execute("select fencepost.wake_known_v1(5000), fencepost.expire_v1(5000)")
        rows = await s.claim(c, 4711, QUEUES, 500)
        await s.start(c, 4711, rows)
        await s.settle(c, 4711, rows)
        await s.promote(c, 5000)
        if (
            not rows
            and await c.fetchval("select count(*) from fencepost.jobs where state in ('queued', 'running')") == 0
        ):
            return
    left = await c.fetch(
        "select label, queue, count(*) from fencepost.jobs where state in ('queued', 'running') group by 1, 2"
    )
    raise AssertionError(f"never ended: {left}")


def verify(database: Database, heard: Heard) -> None:
    with database.connect() as conn:

        def ask(query: str) -> list[tuple[object, ...]]:
            return conn.execute(query.encode()).fetchall()

        # nothing was lost: each job that was committed is over once, or was purged, or discarded
        over = {row[0] for row in ask("select id from fencepost.outcome")}
        assert over == {row[0] for row in ask("select id from fencepost.job")}
        assert over <= heard.created
        ((purged,),) = ask("select coalesce(sum(n), 0) from fencepost.daily")
        ((discarded,),) = ask("select count(*) from fencepost.audit where action = 'discard'")
        assert len(heard.created) == len(over) + int(str(purged)) + int(str(discarded))

        # nothing is left over
        assert ask("select * from fencepost.fsck") == []
        assert ask("select place, reason, count(*) from fencepost.quarantine group by 1, 2") == []
        assert ask("select ckey, used from fencepost.gate where used <> 0") == []
        assert ask("select * from fencepost.slot_due") == []
        assert ask("select h.* from fencepost.held h left join fencepost.outcome o using (id)"
                   " where o.state is distinct from 'in_doubt'") == []  # fmt: skip

        # one run at a time: each has its record, ended before the next one was claimed, by what the worker was told
        assert ask("select id from fencepost.runs group by id having max(run_count) <> count(*)") == []
        assert ask("select id, run_count from (select id, run_count, ended_at, lead(claimed_at) over"
                   " (partition by id order by run_count) as next from fencepost.runs) r where next < ended_at") == []  # fmt: skip
        resolved = {row[0] for row in ask("select id from fencepost.audit where action = 'resolve'")}
        for row in conn.execute("select id, run_count, token, how from fencepost.runs").fetchall():
            run, token, how = (row[0], row[1]), row[2], row[3]
            if run in heard.tokens:  # the others are the drain's
                assert heard.tokens[run] == token
                assert run[0] in resolved or how in ENDS[heard.accepted.get(run, "taken away")], (run, how)
        assert ask("select id, run_count from public.effect group by 1, 2 having count(*) > 1") == []
        assert ask("select e.* from public.effect e join fencepost.job j using (id) left join fencepost.runs r"
                   " using (id, run_count, token) where r.how is distinct from 'succeeded'") == []  # fmt: skip

        # a body that must not run twice: each further start has a resubmission, an operator, a verdict or its own snooze behind it
        lives = dict(conn.execute(
            "select j.id, 1 + resubmits + manual + (select count(*) from fencepost.audit a"
            " where a.id = j.id and a.action = 'resolve' and a.became = 'queued') from fencepost.job j").fetchall())  # fmt: skip
        snoozes = Counter(id_ for (id_, _), act in heard.accepted.items() if act == "snooze")
        again = {
            id_: runs
            for id_, runs in heard.started_once.items()
            if id_ in lives and len(runs) > lives[id_] + snoozes[id_]
        }
        assert again == {}


@pytest.mark.slow
@pytest.mark.timeout(450)
@pytest.mark.spec("L1", "L2", "Q3", "Q4", "Q11", "C1", "C3", "C7", "C12", "E1", "W12")
@pytest.mark.parametrize("seconds", [8, pytest.param(90, marks=pytest.mark.nightly)])
def test_all_operations_at_once_lose_nothing_and_never_deadlock(each_version: Database, seconds: int) -> None:
    heard = soaked(each_version, seconds)

    told = (
        f"seed {SEED}: {dict(heard.counts)}; clashes {dict(heard.clashes)}; callers' own deadlocks {heard.callers_own}"
    )
    print(told)
    assert heard.deadlocks == [], told
    verify(each_version, heard)
    with each_version.connect() as conn:
        (server_saw,) = conn.execute(
            "select deadlocks from pg_stat_database where datname = current_database()"
        ).fetchone() or (0,)
    assert server_saw <= len(heard.callers_own), told
    timeouts = {operation for operation, kind in heard.clashes if kind == "lock timeout"}
    assert timeouts <= MAY_WAIT, told
    assert heard.never_happened() == [], told


def race_pairs(database: Database, seconds: float) -> None:
    async def check(s: Store, c: Conn) -> None:
        await s.task(c, "t", ttl_s=0.02, dedup_s=0)
        await c.execute("select fencepost.register_v1(1, 'h', 1, '{\"t\": 1}')")
        operations = Pairs(s, SEED).operations()
        found = {}
        for one, other in itertools.combinations_with_replacement(operations, 2):
            a, b = operations[one], operations[other]
            clashes = await s.race(seconds, operations["enqueue"], operations["work"], a, a, b, b)
            await s.close()
            if clashes:
                found[one, other] = clashes
        assert found == {}
        assert await s.fsck(await s.conn()) == []

    perform(database.dsn, check)


@pytest.mark.slow
@pytest.mark.spec("Q11")
def test_no_pair_of_operations_deadlocks_on_the_same_jobs(database: Database) -> None:
    """A2: one lock order everywhere: no deadlock, for any two operations and each with itself."""
    race_pairs(database, 0.1)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.spec("Q11")
def test_no_pair_of_operations_deadlocks_on_the_same_jobs_on_any_version(each_version: Database) -> None:
    race_pairs(each_version, 0.35)
