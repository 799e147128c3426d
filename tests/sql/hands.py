"""Hands for the storage checks: short names over the functions, on async connections with ``$1`` parameters."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

Row = dict[str, Any]
TRANSIENT = (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable, psycopg.errors.SerializationFailure)


class Conn:
    """One connection in autocommit, with fetch, fetchval and execute."""

    def __init__(self, inner: psycopg.AsyncConnection[Any]) -> None:
        self.inner = inner

    @classmethod
    async def open(cls, dsn: str) -> Conn:
        return cls(await psycopg.AsyncConnection.connect(dsn, autocommit=True))

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        async with psycopg.AsyncRawCursor(self.inner, row_factory=dict_row) as cursor:
            await cursor.execute(query.encode(), params or None)
            return await cursor.fetchall() if cursor.description else []

    async def fetchval(self, query: str, *params: Any) -> Any:
        rows = await self.fetch(query, *params)
        return next(iter(rows[0].values())) if rows else None

    async def execute(self, query: str, *params: Any) -> None:
        await self.fetch(query, *params)

    def transaction(self, **options: Any) -> Any:
        return self.inner.transaction(**options)

    async def begin(self) -> None:
        await self.execute("begin")

    async def commit(self) -> None:
        await self.execute("commit")

    async def rollback(self) -> None:
        await self.execute("rollback")

    @property
    def pid(self) -> int:
        return self.inner.info.backend_pid

    async def close(self) -> None:
        await self.inner.close()


class Store:
    """The operations of the storage, by their everyday names; and the connections that a check opened."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._open: list[Conn] = []

    async def conn(self) -> Conn:
        made = await Conn.open(self.dsn)
        self._open.append(made)
        return made

    async def close(self) -> None:
        for one in self._open:
            await one.close()

    async def enq(
        self,
        c: Conn,
        ids: Sequence[str],
        queue: str = "q",
        keys: Sequence[str | None] | None = None,
        ckeys: Sequence[str | None] | None = None,
        task: str = "t",
        opts: dict[str, Any] | None = None,
        on_terminal: str = "resubmit",
        notify: bool = False,
    ) -> list[str]:
        n = len(ids)
        rows = await c.fetch(
            "select * from fencepost.enqueue_v1($1::text[], $2::text[], $3::text[], p_queue => $4::text[], "
            "p_unique_key => $5::text[], p_ckey => $6::text[], p_opts => $7::jsonb[], p_on_terminal => $8, "
            "p_notify => $9::boolean)",
            list(ids), [task] * n, ["{}"] * n, [queue] * n, list(keys) if keys else None,
            list(ckeys) if ckeys else None, [json.dumps(opts)] * n if opts else None, on_terminal, notify,
        )  # fmt: skip
        assert [row["ord"] for row in rows] == list(range(1, n + 1))
        return [row["answer"] for row in rows]

    async def claim(self, c: Conn, token: int, queues: str | Sequence[str] = "q", n: int = 10) -> list[Row]:
        names = [queues] if isinstance(queues, str) else list(queues)
        rows = await c.fetch(
            "select * from fencepost.claim_v1($1::bigint, $2::text[], $3::int[])", token, names, [n] * len(names)
        )
        return [row for row in rows if row["id"] is not None]

    async def settle(
        self,
        c: Conn,
        token: int,
        rows: Sequence[Row],
        act: str | Sequence[str] = "succeed",
        delay: float = 0.0,
        code: str | None = None,
        error: str | None = None,
        results: Sequence[str | None] | None = None,
        defer: bool = False,
    ) -> dict[int, str]:
        n = len(rows)
        acts = [act] * n if isinstance(act, str) else list(act)
        got = await c.fetch(
            "select * from fencepost.settle_v1($1::bigint, $2::bigint[], $3::int[], $4::text[], $5::float8[], $6::text[], "
            "$7::text[], $8::text[], p_defer => $9::boolean)",
            token, [r["id"] for r in rows], [r["run_count"] for r in rows], acts, [delay] * n, [code] * n, [error] * n,
            list(results) if results else [None] * n, defer,
        )  # fmt: skip
        return {row["id"]: row["answer"] for row in got}

    async def states(self, c: Conn, *job_ids: str) -> list[str]:
        return [await self.state(c, job_id) for job_id in job_ids]

    async def job(self, c: Conn, job_id: str) -> Row:
        """Its row of the view ``jobs``."""
        return (await c.fetch("select * from fencepost.jobs where job_id = $1", job_id))[0]

    async def runs(self, c: Conn, job_id: str) -> list[Row]:
        return await c.fetch(
            "select r.* from fencepost.runs r join fencepost.job j using (id) where j.job_id = $1 order by r.run_count",
            job_id,
        )

    async def task(self, c: Conn, name: str, **policy: Any) -> None:
        """Publish a task as a worker does."""
        row = {
            "version": 1, "queue": "q", "priority": 0, "max_attempts": 5, "max_crashes": 3, "on_lost": "requeue",
            "at_most_once": False, "ttl_s": None, "dedup_s": 86400, "keep_ok_s": 14 * 86400, "keep_bad_s": 90 * 86400,
        }  # fmt: skip
        await c.execute("select fencepost.publish_tasks_v1($1::jsonb)", json.dumps([{"name": name, **row, **policy}]))

    async def rescue_process(
        self,
        c: Conn,
        token: int,
        *,
        started: Sequence[Row] = (),
        overdue: Sequence[Row] = (),
        interrupted: Sequence[Row] = (),
    ) -> dict[int, str]:
        got = await c.fetch(
            "select * from fencepost.rescue_process_v1($1::bigint, $2::bigint[], $3::bigint[], $4::bigint[])",
            token, *[[row["id"] for row in rows] for rows in (started, overdue, interrupted)],
        )  # fmt: skip
        return {row["id"]: row["state"] for row in got}

    async def beat(
        self, c: Conn, token: int, rows: Sequence[Row], progress: Sequence[str] | None = None
    ) -> dict[int, str]:
        got = await c.fetch(
            "select * from fencepost.heartbeat_v1($1::bigint[], $2::bigint[], $3::int[], null, $4::text[])",
            [token] * len(rows), [r["id"] for r in rows], [r["run_count"] for r in rows],
            list(progress) if progress else None,
        )  # fmt: skip
        return {row["id"]: row["answer"] for row in got}

    async def start(self, c: Conn, token: int, rows: Sequence[Row]) -> dict[int, str]:
        got = await c.fetch(
            "select * from fencepost.start_v1($1::bigint, $2::bigint[], $3::int[])",
            token, [r["id"] for r in rows], [r["run_count"] for r in rows],
        )  # fmt: skip
        return {row["id"]: row["answer"] for row in got}

    async def cancel(self, c: Conn, job_id: str) -> str:
        return str(await c.fetchval("select fencepost.cancel_v1($1, 'test')", job_id))

    async def rescue(self, c: Conn, n: int = 100) -> int:
        return len(await c.fetch("select * from fencepost.rescue_v1($1::int)", n))

    async def promote(self, c: Conn, n: int = 100) -> int:
        return int(await c.fetchval("select fencepost.promote_v1($1::int)", n))

    async def purge(self, c: Conn, n: int = 100) -> int:
        """As if retention were over: what would be purged within 14 days is due now; longer windows stay."""
        await c.execute(
            "update fencepost.outcome set purge_at = now() - interval '1 s' where id = any (array("
            "select id from fencepost.outcome where purge_at > now() and purge_at < now() + interval '14 d' + interval '1 min'"
            " for update skip locked))"
        )
        return int(await c.fetchval("select fencepost.purge_v1($1::int)", n))

    async def state(self, c: Conn, job_id: str) -> str:
        return str(await c.fetchval("select state from fencepost.jobs where job_id = $1", job_id))

    async def stale(self, c: Conn) -> None:
        await c.execute("update fencepost.running set claimed_at = now() - interval '1 h', heartbeat_at = null")

    async def unhindered(self, work: Awaitable[Any]) -> Any:
        """The answer of work that must wait for nobody's lock: seen by looking, since time says little on a busy machine."""
        watcher, running = await self.conn(), asyncio.ensure_future(work)
        try:
            while not running.done():
                waiting = await watcher.fetch(
                    "select wait_event, query from pg_stat_activity where datname = current_database() "
                    "and wait_event_type = 'Lock' and wait_event <> 'extend'"
                )
                assert not waiting, waiting
                await asyncio.wait([running], timeout=0.02)
        finally:
            running.cancel()
        return running.result()

    async def fsck(self, c: Conn) -> list[Row]:
        return await c.fetch("select * from fencepost.fsck")

    async def race(self, seconds: float, *steps: Callable[[Conn], Awaitable[object]]) -> list[str]:
        """Run steps in loops on connections of their own; what ended in a deadlock, and where.

        Deadlocks are looked for after 50 ms of waiting, long before any function's lock_timeout of 1 s would hide one.
        A lock timeout by itself only says that a holder got no processor for a second.
        """
        clashes, end = list[str](), time.monotonic() + seconds

        async def loop(step: Callable[[Conn], Awaitable[object]]) -> None:
            c = await self.conn()
            await c.execute("set deadlock_timeout = '50ms'")
            while time.monotonic() < end:
                try:
                    await step(c)
                except psycopg.errors.DeadlockDetected as error:
                    clashes.append(f"{step.__name__}: {error} {error.diag.message_detail} {error.diag.context}")
                except psycopg.errors.LockNotAvailable:
                    continue

        await asyncio.gather(*[loop(step) for step in steps])
        return clashes


def perform(dsn: str, check: Callable[[Store, Conn], Awaitable[None]]) -> None:
    """Run one check with connections of its own."""

    async def main() -> None:
        store = Store(dsn)
        try:
            await check(store, await store.conn())
        finally:
            await store.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def write_function(conn: psycopg.Connection[Any], text: str, originals: dict[str, str]) -> None:
    """One function with its settings, which are attached to what their own transaction has written."""
    with conn.transaction():
        conn.execute(text.encode())
        conn.execute(originals["zz_settings"].encode())
