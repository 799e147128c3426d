"""What people read: the same truth as the view, by page, and not slower with what is finished (SPEC L1, C2, O1)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from fencepost.errors import UsageError
from fencepost.store import control, insight, jobs, workers
from fencepost.store.wire import Wire
from servers import Database
from store.hands import SQL, TOKEN, claim, enqueue, new, settle


def busy_day(wire: Wire, conn: psycopg.Connection[Any]) -> None:
    """Jobs in every state and under every label, in several queues."""
    enqueue(wire, *(new(f"done{n}", queue="a") for n in range(4)), *(new(f"bad{n}", queue="b") for n in range(3)))
    settle(wire, claim(wire, queue="a"))
    bad = claim(wire, queue="b")
    settle(wire, bad[:2], "fail", code="X")
    settle(wire, bad[2:], "skip")
    enqueue(wire, new("doubt", queue="b"), new("retry", queue="b"), new("lost", queue="b"))
    doubt, retry, lost = claim(wire, queue="b", ttl_s=0.001)
    settle(wire, [doubt], "doubt")
    settle(wire, [retry], "retry", delay_s=100.0)
    wire.run(jobs.rescue(SQL, limit=1))
    stale = claim(wire, queue="b", ttl_s=0.001)
    assert [job.job_id for job in stale] == [lost.job_id]
    enqueue(wire, new("k1", queue="c", concurrency_key="k"), new("k2", queue="c", concurrency_key="k"))
    claim(wire, queue="c")
    enqueue(
        wire, new("later", queue="c", delay_s=3600.0), new("paused", queue="d"), new("ready", queue="a", priority=3)
    )
    enqueue(wire, new("rescued", queue="e"))
    claim(wire, queue="e", ttl_s=0.001, token=TOKEN + 1)
    conn.execute("update fencepost.running set ttl_s = 1000 where queue = 'b'")
    wire.run(jobs.rescue(SQL, limit=10))
    conn.execute("update fencepost.running set ttl_s = 0.001 where queue = 'b'")
    wire.run(control.pause_queue(SQL, "d", "ann", ""))
    wire.run(control.cancel(SQL, "later", "ann", ""))
    enqueue(wire, new("later2", queue="c", delay_s=3600.0))


@pytest.mark.spec("L1", "O1")
def test_counts_by_state_and_label_are_those_of_the_view(wire: Wire, database: Database) -> None:
    with database.connect() as conn:
        busy_day(wire, conn)
        view = conn.execute("select queue, state, label, count(*) from fencepost.jobs group by 1, 2, 3").fetchall()

    status = wire.run(insight.status(SQL))

    assert Counter({(c.queue, c.state, c.label): c.jobs for c in status.counts}) == Counter(
        {row[:3]: row[3] for row in view}
    )
    labels = {c.label for c in status.counts}
    assert labels >= {
        "succeeded", "failed", "skipped", "in_doubt", "cancelled", "running", "lost", "retrying", "parked", "scheduled",
        "paused", "queued", "recovered",
    }  # fmt: skip
    assert (status.running, status.stale) == (2, 1)
    assert (status.fsck, status.quarantine, status.capped) == (0, 0, False)


@pytest.mark.spec("L1")
def test_every_state_and_label_can_be_listed(wire: Wire, database: Database) -> None:
    with database.connect() as conn:
        busy_day(wire, conn)
        everything = conn.execute("select job_id, state, label, queue from fencepost.jobs order by id desc").fetchall()

    assert [job.job_id for job in wire.run(insight.list_jobs(SQL))] == [row[0] for row in everything]
    for state in {row[1] for row in everything}:
        got = wire.run(insight.list_jobs(SQL, state=state))
        assert [job.job_id for job in got] == [row[0] for row in everything if row[1] == state]
        got = wire.run(insight.list_jobs(SQL, state=state, queue="b"))
        assert [job.job_id for job in got] == [row[0] for row in everything if row[1] == state and row[3] == "b"]
    for label in {row[2] for row in everything}:
        got = wire.run(insight.list_jobs(SQL, label=label))
        assert [job.job_id for job in got] == [row[0] for row in everything if row[2] == label]
    assert wire.run(insight.list_jobs(SQL, state="failed", label="running")) == []
    assert wire.run(insight.list_jobs(SQL, task="none such")) == []


@pytest.mark.parametrize("wanted", [{}, {"state": "queued"}, {"tag": "even"}, {"state": "failed"}])
def test_pages_follow_each_other_without_gap_or_repetition(wire: Wire, wanted: dict[str, Any]) -> None:
    enqueue(wire, *(new(f"j{n}", tags=("even",) if n % 2 == 0 else ("odd",), priority=n % 5) for n in range(40)))
    settle(wire, claim(wire, 16), "fail", code="X")
    whole = [job.id for job in wire.run(insight.list_jobs(SQL, **wanted, limit=1000))]

    pages: list[int] = []
    while page := wire.run(insight.list_jobs(SQL, **wanted, limit=7, before=pages[-1] if pages else None)):
        pages += [job.id for job in page]
        enqueue(wire, new())  # newer jobs disturb nobody

    assert pages == whole
    assert pages == sorted(pages, reverse=True)
    assert len(pages) == {"": 40, "queued": 24, "even": 20, "failed": 16}["".join(wanted.values())]


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_of_any_size_is_refused(wire: Wire, limit: int) -> None:
    with pytest.raises(UsageError, match="limit must be from 1 to 10000"):
        wire.run(insight.list_jobs(SQL, limit=limit))


@pytest.mark.spec("O1", "C9")
def test_a_queue_knows_its_oldest_due_job_behind_higher_priorities_and_tenants(wire: Wire, database: Database) -> None:
    with database.connect() as conn:
        conn.execute("select fencepost.queue_fair_v1('fair', true)")
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    enqueue(wire, *(new(queue="fair", tenant=f"t{n}", priority=n % 3) for n in range(20)))
    enqueue(wire, new("oldest", queue="fair", tenant="t7", priority=-5, run_at=long_ago), new(queue="plain"))
    enqueue(wire, new(queue="held", run_at=long_ago))
    wire.run(control.pause_queue(SQL, "held", "ann", ""))
    wire.run(workers.publish_tasks(SQL, [insight_task("unused")]))

    queues = {queue.name: queue for queue in wire.run(insight.queues(SQL))}

    assert sorted(queues) == ["fair", "held", "plain", "unused"]
    assert queues["fair"].ready == 21
    assert (queues["fair"].oldest_due_age_s or 0) > 86_400 * 365
    assert (queues["plain"].oldest_due_age_s or 0) < 60
    assert queues["unused"].oldest_due_age_s is None
    assert (wire.run(insight.status(SQL)).oldest_due_age_s or 0) > 86_400 * 365
    claim(wire, 100, queue="fair")
    assert (wire.run(insight.status(SQL)).oldest_due_age_s or 0) < 60  # the paused queue's does not count


def insight_task(queue: str) -> Any:
    from fencepost.store.views import TaskRow

    return TaskRow(name="t", queue=queue)


def test_counts_stop_at_a_bound_and_say_so(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insight, "MOST", 10)
    enqueue(wire, *(new() for _ in range(25)), *(new(queue="few") for _ in range(3)))

    queues = {queue.name: queue for queue in wire.run(insight.queues(SQL))}

    assert (queues["default"].ready, queues["default"].capped) == (10, True)
    assert (queues["few"].ready, queues["few"].capped) == (3, False)
    assert wire.run(insight.status(SQL)).capped


def test_a_job_shows_its_newest_runs_and_acts_only(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insight, "HISTORY", 3)
    enqueue(wire, new("a", max_attempts=30))
    for _ in range(6):
        settle(wire, claim(wire), "retry", code="X")
        wire.run(control.cancel(SQL, "a", "ann", ""))
        wire.run(control.retry(SQL, "a", "ann", ""))

    view = wire.run(insight.show_job(SQL, "a"))

    assert view is not None
    assert [run.run_count for run in view.runs] == [4, 5, 6]
    assert len(view.audit) == 3
    assert view.manual == 6


@pytest.mark.slow
@pytest.mark.spec("C2")
def test_what_is_finished_makes_nothing_slower(wire: Wire, database: Database) -> None:
    """Rows read per question, with 60,000 finished jobs: a page, a queue list and the ended of one state stay small."""
    with database.connect() as loader:  # closed before anything is counted: a session reports its blocks late
        loader.execute("alter table fencepost.job set (autovacuum_enabled = off)")
        loader.execute("alter table fencepost.outcome set (autovacuum_enabled = off)")
        loader.execute(
            "insert into fencepost.job (job_id, task, version, queue, payload, priority, run_at)"
            " select 'old' || n, 't', 1, 'default', '{}', 0, now() from generate_series(1, 60000) n"
        )
        loader.execute(
            "insert into fencepost.outcome (id, token, finished_at, purge_at, run_count, attempts, crashes, snoozes, state)"
            " select id, 1, now(), now() + interval '1 d', 1, 1, 0, 0, case when id % 20000 = 7 then 'failed' else"
            " 'succeeded' end from fencepost.job"
        )
        loader.execute("analyze fencepost.job, fencepost.outcome")
    with database.connect() as conn:
        enqueue(wire, *(new() for _ in range(50)))

        for wanted in ({}, {"state": "failed"}, {"state": "queued"}, {"state": "running"}, {"label": "lost"}):
            blocks = blocks_read(conn, wire, lambda wanted=wanted: wire.run(insight.list_jobs(SQL, **wanted, limit=20)))
            assert blocks < 3000, f"{wanted}: {blocks} blocks"
        assert blocks_read(conn, wire, lambda: wire.run(insight.queues(SQL))) < 1000


def blocks_read(conn: psycopg.Connection[Any], wire: Wire, act: Any) -> int:
    """Blocks of fencepost's tables that a question touches, by the server's own statistics."""
    wire.close()  # a session's counts are reported when it ends, at the latest
    before = settled_count(conn)
    act()
    wire.close()
    return settled_count(conn) - before


def settled_count(conn: psycopg.Connection[Any]) -> int:
    from waiting import eventually

    seen = -1

    def steady() -> bool:
        nonlocal seen
        conn.execute("select pg_stat_clear_snapshot()")
        row = conn.execute(
            "select sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint"
            " from pg_statio_user_tables where schemaname = 'fencepost'"
        ).fetchone()
        assert row is not None
        last, seen = seen, int(row[0])
        return last == seen

    eventually(steady, every=0.15)
    return seen
