"""The real functions on a real server, at a time that only a test moves.

`Clocked` is a test build of the schema: every reading of a clock (in functions, views and column defaults) becomes
``public.model_now()``, which reads a setting of the session. `Storage` calls the functions in one transaction, which is
rolled back at the end: nothing is left for the next example.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg

from fencepost.sql.catalog import Catalog, SqlFile
from fencepost.store import schema
from model.things import Fence, Input, Policy, Write
from servers import Server

_CLOCK = """
create function public.model_now() returns timestamptz language sql stable
as $$ select current_setting('model.now')::timestamptz $$;
create function public.s(at timestamptz) returns bigint language sql immutable as $$ select extract(epoch from at)::bigint $$;
"""

SEEN = """
select jsonb_build_object(
  'jobs', (select coalesce(jsonb_object_agg(j.id, jsonb_build_object(
     'job_id', job_id, 'task', task, 'version', version, 'queue', queue, 'state', state, 'label', label,
     'attempts', attempts, 'run_count', run_count, 'crashes', crashes, 'snoozes', snoozes, 'priority', priority,
     'heartbeat_at', public.s(heartbeat_at), 'last_error_code', last_error_code, 'last_error', last_error)
     || jsonb_build_object(
     'next_retry_at', public.s(next_retry_at), 'run_at', public.s(run_at), 'parked_for', parked_for, 'worker', worker,
     'progress', progress, 'cancel_at', public.s(cancel_at), 'created_at', public.s(created_at),
     'claimed_at', public.s(claimed_at), 'finished_at', public.s(finished_at), 'stale', stale, 'result', result,
     'payload', payload->'n', 'checkpoint', checkpoint, 'unique_key', unique_key, 'concurrency_key', concurrency_key,
     'tenant', tenant, 'start_by', public.s(start_by), 'finish_by', public.s(finish_by), 'resubmits', resubmits,
     'manual', manual, 'generation', generation)), '{}') from fencepost.jobs j),
  'places', (select coalesce(jsonb_object_agg(id, jsonb_build_array(
     p, reason, public.s(run_at), public.s(start_by), public.s(finish_by), fair_key)), '{}') from (
     select 'ready' as p, id, null as reason, run_at, start_by, finish_by, fair_key from fencepost.ready union all
     select 'delayed', id, reason, run_at, start_by, finish_by, fair_key from fencepost.delayed union all
     select 'parked', id, reason, run_at, start_by, finish_by, fair_key from fencepost.parked) x),
  'runs', (select coalesce(jsonb_object_agg(id || '/' || run_count, jsonb_build_array(
     token, public.s(claimed_at), public.s(started_at), public.s(ended_at), public.s(last_beat_at), max_gap_s::float8, how,
     spent, error_code, error, refused)), '{}') from fencepost.runs),
  'purges', (select coalesce(jsonb_object_agg(id, public.s(purge_at)), '{}') from fencepost.outcome),
  'held', (select coalesce(jsonb_object_agg(scope || '/' || key, id), '{}') from fencepost.held),
  'gates', (select coalesce(jsonb_object_agg(ckey, jsonb_build_array(lim, used)), '{}') from fencepost.gate),
  'slots_due', (select coalesce(jsonb_agg(ckey order by id), '[]') from fencepost.slot_due),
  'workers', (select coalesce(jsonb_object_agg(token, jsonb_build_array(public.s(heartbeat_at), tasks)), '{}')
                from fencepost.worker),
  'leaders', (select coalesce(jsonb_object_agg(name, jsonb_build_object(
     'token', token, 'epoch', epoch, 'taken_at', public.s(taken_at), 'renewed_at', public.s(renewed_at),
     'expires_at', public.s(expires_at), 'good_at', public.s(good_at))), '{}') from fencepost.leader),
  'daily', (select coalesce(jsonb_object_agg((day - date '1970-01-01') || '/' || task || '/' || state || '/' || code, n),
                            '{}') from fencepost.daily),
  'audit', (select coalesce(jsonb_agg(jsonb_build_array(id, actor, action, was, became) order by n), '[]')
              from fencepost.audit),
  'fsck', (select coalesce(jsonb_agg(to_jsonb(f)), '[]') from fencepost.fsck f),
  'quarantine', (select coalesce(jsonb_agg(to_jsonb(q)), '[]') from fencepost.quarantine q))
"""


def moment(at: int | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def clocked(text: str) -> str:
    """The same SQL, by the settable clock."""
    return text.replace("clock_timestamp()", "public.model_now()").replace(
        "statement_timestamp()", "public.model_now()"
    )


class Clocked(Catalog):
    """The schema's files as a test build with a settable clock."""

    def migrations(self) -> list[SqlFile]:
        return [dataclasses.replace(file, text=clocked(file.text)) for file in super().migrations()]

    def functions(self) -> list[SqlFile]:
        return [dataclasses.replace(file, text=clocked(file.text)) for file in super().functions()]


def install(server: Server) -> str:
    """A database with the test build; its dsn."""
    name = server.create()
    with server.connect(name) as conn:
        conn.execute(_CLOCK.encode())
        conn.execute(f"alter database {name} set model.now = '2030-01-01 00:00:00+00'".encode())
    schema.migrate(server.dsn_of(name), Clocked())
    return server.dsn_of(name)


class Storage:
    """The functions by their everyday names, with the model's arguments and answers."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    def begin(self, now: int) -> None:
        """From nothing: the first job's id is 1."""
        self.ask("select setval('fencepost.job_id_seq', 1, false)")
        self.set_time(now)

    def end(self) -> None:
        self.conn.rollback()

    def set_time(self, now: int) -> None:
        self.ask("select set_config('model.now', %s, true)", str(moment(now)))

    def ask(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        return self.conn.execute(query.encode(), params or None).fetchall()

    def value(self, query: str, *params: Any) -> Any:
        return self.ask(query, *params)[0][0]

    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value(SEEN)
        return found

    def enqueue(self, inputs: Sequence[Input], on_terminal: str) -> list[tuple[Any, ...]]:
        def opts(one: Input) -> str:
            words = {
                "delay_s": one.delay_s, "tenant": one.tenant, "start_by": one.start_by and str(moment(one.start_by)),
                "finish_by": one.finish_by and str(moment(one.finish_by)), "max_attempts": one.max_attempts,
                "dedup_s": one.dedup_s, "version": one.version,
            }  # fmt: skip
            return json.dumps({name: value for name, value in words.items() if value is not None})

        rows = self.ask(
            "select ord, job_id, answer, id, holder, differs from fencepost.enqueue_v1(%s::text[], %s::text[], %s::text[], "
            "%s::text[], %s::int[], %s::timestamptz[], %s::text[], %s::text[], %s::jsonb[], %s)",
            [one.job_id for one in inputs], [one.task for one in inputs], [f'{{"n": {one.payload}}}' for one in inputs],
            [one.queue for one in inputs], [one.priority for one in inputs], [moment(one.run_at) for one in inputs],
            [one.key for one in inputs], [one.ckey for one in inputs], [opts(one) for one in inputs], on_terminal,
        )  # fmt: skip
        assert [row[:2] for row in rows] == [(n + 1, one.job_id) for n, one in enumerate(inputs)]
        return [row[2:] for row in rows]

    def enqueue_from_sql(self, one: Input) -> list[tuple[Any, ...]]:
        """The public function, which has no version argument."""
        return self.ask(
            "select answer, id, holder, differs from fencepost.enqueue(%s, %s::jsonb, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, "
            "%s, %s)",
            one.task, f'{{"n": {one.payload}}}', one.job_id, one.queue, one.priority, moment(one.run_at), one.delay_s, one.key,
            one.ckey, one.tenant, moment(one.start_by), moment(one.finish_by), one.max_attempts, one.dedup_s,
        )  # fmt: skip

    def claim(
        self, token: int, lanes: Sequence[tuple[str, int, str]], ttl_s: int, only_one: bool
    ) -> tuple[int, list[dict[str, Any]]]:
        names = (
            "id", "run_count", "attempts", "max_attempts", "crashes", "snoozes", "generation", "ttl_s", "checkpoint",
            "fair_key",
        )  # fmt: skip
        rows = self.ask(
            f"select {', '.join(names)} from fencepost.claim_v1(%s, %s::text[], %s::int[], %s, %s, %s::text[])",
            token, [lane[0] for lane in lanes], [lane[1] for lane in lanes], 1 if only_one else 1 << 24, ttl_s,
            [lane[2] for lane in lanes],
        )  # fmt: skip
        aside = sum(row[1] for row in rows if row[0] is None)
        runs = [dict(zip(names, row, strict=True)) for row in rows if row[0] is not None]
        for run in runs:
            run["checkpoint"] = None if run["checkpoint"] is None else int(run["checkpoint"])
        return aside, runs

    def beat(
        self, fences: Sequence[Fence], started: bool, progress: int | None, workers: Collection[int]
    ) -> list[tuple[Any, ...]]:
        return sorted(
            self.ask(
                "select id, answer from fencepost.heartbeat_v1(%s::bigint[], %s::bigint[], %s::int[], %s::boolean[], "
                "%s::text[], %s::bigint[])",
                *_fences(fences),
                [started] * len(fences) if started else None,
                None if progress is None else [str(progress)] * len(fences),
                list(workers) or None,
            )  # fmt: skip
        )

    def start(self, token: int, fences: Sequence[Fence]) -> list[tuple[Any, ...]]:
        query = "select id, answer from fencepost.start_v1(%s, %s::bigint[], %s::int[])"
        return sorted(self.ask(query, token, *_fences(fences)[1:]))

    def checkpoint(self, fence: Fence, data: int) -> Any:
        query = "select fencepost.checkpoint_v1(%s, %s, %s, %s::jsonb)"
        return self.value(query, fence.token, fence.id, fence.run_count, str(data))

    def settle(self, token: int, writes: Sequence[Write], defer: bool) -> list[tuple[Any, ...]]:
        return self.ask(
            "select id, answer, state from fencepost.settle_v1(%s, %s::bigint[], %s::int[], %s::text[], %s::float8[], "
            "%s::text[], %s::text[], %s::text[], p_defer => %s)",
            token, *_fences([write.fence for write in writes])[1:], [write.act for write in writes],
            [write.delay for write in writes], [write.code for write in writes], [write.error for write in writes],
            [write.result for write in writes], defer,
        )  # fmt: skip

    def rescue(self, limit: int, grace_s: int) -> list[tuple[Any, ...]]:
        return self.ask("select id, answer, state from fencepost.rescue_v1(%s, %s)", limit, grace_s)

    def rescue_process(self, token: int, *classes: Collection[int]) -> list[tuple[Any, ...]]:
        query = (
            "select id, answer, state from fencepost.rescue_process_v1(%s, %s::bigint[], %s::bigint[], %s::bigint[])"
        )
        return self.ask(query, token, *map(list, classes))

    def publish(self, task: str, policy: Policy) -> Any:
        return self.value("select fencepost.publish_tasks_v1(%s::jsonb)", json.dumps([{"name": task, **vars(policy)}]))


def _fences(fences: Sequence[Fence]) -> tuple[list[int], list[int], list[int]]:
    return [fence.token for fence in fences], [fence.id for fence in fences], [fence.run_count for fence in fences]
