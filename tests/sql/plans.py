"""What plans are judged by: acts on a little stock, the blocks they touch, and the much that must not matter to them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from fencepost.sql.catalog import Catalog

SQL = Catalog()
ANY: dict[str, Any] = {
    "state": None, "label": None, "queue": None, "task": None, "tag": None, "before": None, "limit": 20,
}  # fmt: skip
KEYS = [f"key{n}" for n in range(30)]
NOTHING: dict[str, Any] = {
    "queue": None, "priority": None, "run_at": None, "unique_key": None, "ckey": None, "opts": None,
    "on_terminal": "resubmit", "notify": False,
}  # fmt: skip
PERSON = {"actor": "ann", "reason": ""}


class Act(NamedTuple):
    """A statement of the catalogue with its values; ``answers``: how many rows it must give, so that it did its work."""

    statement: str
    values: dict[str, Any]
    answers: int | None = None


def live(first: int, number: int, rc: int = 1) -> dict[str, Any]:
    """A fence for jobs that run."""
    return {"token": 7, "id": [*range(first, first + number)], "run_count": [rc] * number}


def same(number: int, **values: object) -> dict[str, Any]:
    return {name: [value] * number for name, value in values.items()}


def enqueues(ids: list[str], **more: Any) -> dict[str, Any]:
    return {**NOTHING, "job_id": ids, **same(len(ids), task="t", payload="{}"), **more}


SETTLE: dict[str, Any] = {
    **live(1001, 50),
    **same(50, delay_s=0.0, code="E", error="e", result=None, stats=None),
    "defer": False,
}

ACTS = {
    "claim": Act("jobs/claim", {"token": 8, "queues": ["paused", "default", "live"], "quotas": [50, 50, 50],
                                "max_bytes": 1 << 24, "ttl_s": 30.0, "after": None}, 50),
    "claim of one": Act("jobs/claim", {"token": 8, "queues": ["live"], "quotas": [1], "max_bytes": 1 << 24, "ttl_s": 30.0,
                                       "after": None}, 1),
    "claim of keys": Act("jobs/claim", {"token": 8, "queues": ["keys"], "quotas": [30], "max_bytes": 1 << 24, "ttl_s": 30.0,
                                        "after": None}, 20),
    "fair claim": Act("jobs/claim", {"token": 8, "queues": ["paused", "fair"], "quotas": [30, 30], "max_bytes": 1 << 24,
                                     "ttl_s": 30.0, "after": ["", "b"]}, 20),
    "claim of nothing": Act("jobs/claim", {"token": 8, "queues": ["paused", "default", "none"], "quotas": [50, 50, 50],
                                           "max_bytes": 1 << 24, "ttl_s": 30.0, "after": None}, 0),
    "settle": Act("jobs/settle", {**SETTLE, **same(50, act="succeed")}, 50),
    "settle, retry": Act("jobs/settle", {**SETTLE, **same(50, act="retry")}, 50),
    "settle, late": Act("jobs/settle", {**SETTLE, **live(1001, 50, 9), **same(50, act="succeed")}, 50),
    "settle of a key": Act("jobs/settle", {**SETTLE, **live(1100, 1), **same(1, act="succeed", delay_s=0.0, code="", error="",
                                                                          result=None, stats=None)}, 1),
    "heartbeat": Act("jobs/beat", {**live(1001, 50), **same(50, token=7, started=True, progress='{"n": 1}'), "workers": [7]},
                     50),
    "start": Act("jobs/start", live(1001, 50), 50),
    "checkpoint": Act("jobs/checkpoint", {"token": 7, "id": 1001, "run_count": 1, "data": "{}"}, 1),
    "mine": Act("jobs/mine", {"token": 7}, 1),
    "enqueue": Act("jobs/enqueue", enqueues([f"new{n}" for n in range(30)]), 30),
    "enqueue with keys": Act("jobs/enqueue", enqueues([f"new{n}" for n in range(30)], unique_key=KEYS), 30),
    "enqueue of one": Act("jobs/enqueue", enqueues(["new"], unique_key=["k"]), 1),
    "enqueue of known ones": Act("jobs/enqueue", enqueues([f"live{n}" for n in range(1001, 1031)], unique_key=KEYS), 30),
    "enqueue of ended ones": Act("jobs/enqueue", enqueues([f"live{n}" for n in range(2001, 2031)], unique_key=KEYS), 30),
    "promote": Act("jobs/promote", {"limit": 50}, 1),
    "rescue": Act("jobs/rescue", {"limit": 50, "grace_s": -1000.0, "seen_at": None}, 50),
    "rescue of nothing": Act("jobs/rescue", {"limit": 50, "grace_s": 1000.0, "seen_at": None}, 0),
    "rescue of a process": Act("jobs/rescue_process", {"token": 7, "started": [1001], "overdue": [], "interrupted": [],
                                                       "limit": 50}, 50),
    "purge": Act("duties/purge", {"limit": 50}, 1),
    "expire": Act("duties/expire", {"limit": 50}, 1),
    "sweep of gates": Act("duties/sweep_gates", {"limit": 10}, 1),
    "wrong gates": Act("duties/wrong_gates", {"limit": 10}),
    "cancel": Act("control/cancel", {"job_id": "live3001", **PERSON}, 1),
    "cancel of a running one": Act("control/cancel", {"job_id": "live1001", **PERSON}, 1),
    "retry": Act("control/retry", {"job_id": "live2001", **PERSON}, 1),
    "discard": Act("control/discard", {"job_id": "live2001", **PERSON}, 1),
    "pause": Act("control/switch_queue", {"queue": "live", "paused": True, **PERSON}, 1),
    "list": Act("insight/list_all", ANY, 20),
    "list of failed": Act("insight/list_ended", {**ANY, "state": "failed"}, 20),
    "list of failed, further": Act("insight/list_ended", {**ANY, "state": "failed", "before": 2010}, 9),
    "list of cancelled": Act("insight/list_ended", {**ANY, "state": "cancelled"}, 0),
    "list of running": Act("insight/list_running", {**ANY, "state": "running"}, 20),
    "list of queued": Act("insight/list_queued", {**ANY, "state": "queued"}, 20),
    "list of parked": Act("insight/list_queued", {**ANY, "label": "parked"}, 20),
    "list of scheduled": Act("insight/list_queued", {**ANY, "label": "scheduled"}, 20),
    "list of lost": Act("insight/list_running", {**ANY, "label": "lost"}, 0),
    "queues": Act("insight/queues", {"most": 100, "groups": 5000}),
    "counts": Act("insight/counts", {"most": 100}),
    "figures": Act("insight/figures", {}, 1),
    "job": Act("insight/show_job", {"job_id": "live2001"}, 1),
    "runs": Act("insight/show_runs", {"id": 2001, "most": 500}),
    "audit": Act("insight/show_audit", {"id": 2001, "most": 500}),
}  # fmt: skip

STOCK = """
insert into fencepost.queue (name, paused, fair) values ('paused', true, false), ('fair', false, true);
insert into fencepost.task (name) values ('t');
insert into fencepost.worker (token, tasks) values (7, '{"t": 1}');
insert into fencepost.job (id, job_id, task, version, queue, payload, priority, run_at) select n, 'live' || n, 't', 1,
  'live', '{}', 0, now() from generate_series(1001, 5100) n;
insert into fencepost.running (id, token, run_at, claimed_at, ttl_s, keep_ok_s, keep_bad_s, run_count, bytes,
  priority, attempts, crashes, snoozes, max_attempts, max_crashes, keyed, at_most_once, on_lost, queue, fair_key,
  ckey) select n, 7, now(), now(), 900, 1, 1, 1, 2, 0, 1, 0, 0, 5, 3, false, false, 'requeue', 'live', '',
  case n when 1100 then 'k0' end from generate_series(1001, 1100) n;
insert into fencepost.outcome (id, token, finished_at, purge_at, run_count, attempts, crashes, snoozes, state)
  select n, 7, now() - interval '2 d', now() + interval '1 d', 1, 1, 0, 0, 'failed' from generate_series(2001, 2500) n
  union all select n, 7, now(), now() - interval '1 s', 1, 1, 0, 0, 'succeeded' from generate_series(2501, 3000) n;
insert into fencepost.ready (id, queue, run_at) select n, 'live', now() from generate_series(3001, 3500) n;
insert into fencepost.ready (id, queue, run_at, ckey) select n, 'keys', now(), 'k' || n % 40
  from generate_series(3501, 3600) n;
insert into fencepost.ready (id, queue, run_at, fair_key) select n, 'fair', now(), chr(97 + n % 20)
  from generate_series(3601, 4000) n;
insert into fencepost.ready (id, queue, run_at, start_by) select n, 'late', now(), now() from generate_series(4001,
  4100) n;
insert into fencepost.delayed (id, queue, run_at) select n, 'live', now() - interval '1 s' from generate_series(4101,
  4500) n union all select n, 'live', now() + interval '1 d' from generate_series(5001, 5100) n;
insert into fencepost.parked (id, queue, run_at, ckey, reason) select n, 'live', now(), 'k' || n % 40, 'key'
  from generate_series(4501, 5000) n;
insert into fencepost.gate (ckey, used) select 'k' || n, (n < 20)::int from generate_series(0, 39) n;
"""

FILL = """
insert into fencepost.job (id, job_id, task, version, queue, payload, priority, run_at) select 10000 + n, 'old' || n,
  't', 1, 'default', '{}', 0, now() from generate_series(1, 400000) n;
insert into fencepost.outcome (id, token, finished_at, purge_at, run_count, attempts, crashes, snoozes, state)
  select 10000 + n, 1, now(), now() + interval '1 d', 1, 1, 0, 0,
  case when n % 20 = 7 then 'failed' else 'succeeded' end from generate_series(1, 100000) n;
insert into fencepost.delayed (id, queue, run_at, start_by) select 10000 + n, 'default', now() + interval '1 d',
  case when n % 3 = 0 then now() + interval '2 d' end from generate_series(100000 + 1, 200000) n;
insert into fencepost.parked (id, queue, run_at, ckey, reason) select 10000 + n, 'default', now(), 'k' || n % 40,
  'key' from generate_series(200000 + 1, 300000) n;
insert into fencepost.ready (id, queue, run_at, priority) select 10000 + n, 'paused', now() - interval '1 d', 9
  from generate_series(300000 + 1, 400000) n;
"""


def stock(conn: psycopg.Connection[Any]) -> None:
    """A little of everything that the acts work on, and statistics of just that."""
    conn.execute(STOCK.encode())
    tables = conn.execute("select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = 'fencepost'")
    for (table,) in tables.fetchall():
        conn.execute(f"alter table {table} set (autovacuum_enabled = off)".encode())
    conn.execute("analyze")


def blocks(conn: psycopg.Connection[Any], act: Act, called_before: int = 0) -> int:
    """Blocks that an act touches, in a transaction that is rolled back; also those inside functions."""
    text = SQL.statement(act.statement)
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)[sb]", text)))  # one number a name, as psycopg gives them
    text = re.sub(r"%\((\w+)\)[sb]", lambda match: f"${names.index(match[1]) + 1}", text)
    values = sql.SQL(", ").join(sql.Literal(act.values[name]) for name in names)
    call = sql.SQL("execute act ({})").format(values) if names else sql.SQL("execute act")
    with conn.transaction(force_rollback=True):
        conn.execute(f"prepare act as {text}".encode())
        for _ in range(called_before):
            conn.execute(sql.SQL("explain {}").format(call))
        (plan,) = conn.execute(sql.SQL("explain (analyze, buffers, format json) {}").format(call)).fetchall()
        conn.execute("deallocate act")
    top = plan[0][0]["Plan"]
    assert act.answers in (None, top["Actual Rows"]), f"{act.statement}: {top['Actual Rows']} rows"
    return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])


def measured(conn: psycopg.Connection[Any], rooms: Iterable[str] = ()) -> dict[str, int]:
    """Of each act (of these rooms) the worse of its first call in a session and its seventh, when its plan may be one for
    all values."""
    return {
        name: max(blocks(conn, act), blocks(conn, act, called_before=6))
        for name, act in ACTS.items()
        if not rooms or act.statement.split("/")[0] in rooms
    }


def growth(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    """The acts that read more than twice as much as before, and more than a few pages."""
    return {name: (before[name], after[name]) for name in before if after[name] > 2 * before[name] + 200}
