"""The verbs for async code: the same as `fencepost.client.sync`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import psycopg

from fencepost.client.again import Again
from fencepost.client.batch import Batch, batch
from fencepost.client.connection import DEADLINE_S, AsyncBoundedConnection
from fencepost.client.pool import AsyncPool
from fencepost.client.refusals import caller_error, refuse_unknown_fate
from fencepost.client.transaction import require_async
from fencepost.domain.job import Enqueued, NewJob
from fencepost.sql.catalog import Catalog
from fencepost.store import control, insight, jobs
from fencepost.store.drive import arun
from fencepost.store.flow import Flow
from fencepost.store.views import JobRow, JobView, QueueView, StatusView, WorkerView

T = TypeVar("T")


class AsyncClient:
    """The verbs of `Client`, awaited; the promises are the same."""

    def __init__(self, sql: Catalog, pool: AsyncPool, *, notify: bool = True) -> None:
        self._sql, self._pool, self._notify = sql, pool, notify

    async def enqueue(
        self, new_jobs: Iterable[NewJob], tx: psycopg.AsyncConnection[Any] | None = None
    ) -> list[Enqueued]:
        """Enqueue all or none; one answer each, in order (SPEC Q5, Q11).

        With ``tx`` in that transaction: what PostgreSQL itself refuses there (40001, a deadlock) is raised as the
        driver's error. Without, in one of our own, sent again on a lost connection: the job_ids make that harmless.
        """
        if tx is not None:
            await require_async(tx)
        work = batch(new_jobs)
        if not work.jobs:
            return []
        return await self._own(work) if tx is None else await self._in(tx, work)

    async def job(self, job_id: str) -> JobView | None:
        """Everything about one job: contract columns, runs, audit; None if there is none."""
        return await self._ask(lambda: insight.show_job(self._sql, job_id))

    async def list_jobs(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        state: str | None = None,
        label: str | None = None,
        tag: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[JobRow]:
        """Jobs that fit every filter given, newest first; ``before`` (an id) pages on."""
        wanted = {"queue": queue, "task": task, "state": state, "label": label, "tag": tag}
        return await self._ask(lambda: insight.list_jobs(self._sql, **wanted, limit=limit, before=before))

    async def queues(self) -> list[QueueView]:
        """Every queue with its counts and whether it is paused, by whom and why."""
        return await self._ask(lambda: insight.queues(self._sql))

    async def workers(self) -> list[WorkerView]:
        """Every worker process that the database knows."""
        return await self._ask(lambda: insight.workers(self._sql))

    async def status(self) -> StatusView:
        """Counts by queue, state and label; oldest due job; stale leases; workers; leader; quarantine."""
        return await self._ask(lambda: insight.status(self._sql))

    async def cancel(self, job_id: str, *, actor: str, reason: str = "") -> str:
        """Cancel a queued job at once, a running one cooperatively (SPEC W8); the answer says which."""
        return await self._act(lambda: control.cancel(self._sql, job_id, actor, reason))

    async def retry(self, job_id: str, *, actor: str, reason: str = "") -> tuple[str, str | None]:
        """Submit an ended job again, same row and arguments; ("skipped", holder) if its key is held (SPEC R5)."""
        return await self._act(lambda: control.retry(self._sql, job_id, actor, reason))

    async def resolve(self, job_id: str, verdict: str, *, actor: str, reason: str = "") -> str:
        """Decide about a job in doubt: succeeded, queued, failed or cancelled (SPEC L7)."""
        return await self._act(lambda: control.resolve(self._sql, job_id, verdict, actor, reason))

    async def discard(self, job_id: str, *, actor: str, reason: str = "") -> str:
        """Remove an ended job and its history."""
        return await self._act(lambda: control.discard(self._sql, job_id, actor, reason))

    async def pause_queue(self, queue: str, *, actor: str, reason: str = "") -> str:
        """Let no worker claim from the queue; what runs goes on."""
        return await self._act(lambda: control.pause_queue(self._sql, queue, actor, reason))

    async def resume_queue(self, queue: str, *, actor: str, reason: str = "") -> str:
        """End a pause."""
        return await self._act(lambda: control.resume_queue(self._sql, queue, actor, reason))

    async def close(self) -> None:
        """Close the idle connections; the client may be used again."""
        await self._pool.aclose()

    async def _ask(self, flow: Callable[[], Flow[T]]) -> T:
        return await self._tried(
            lambda conn, _: arun(conn, flow(), binary=True), Again(budget_s=DEADLINE_S, harmless=True)
        )

    async def _act(self, flow: Callable[[], Flow[T]]) -> T:
        async def act(conn: AsyncBoundedConnection, _: Again) -> T:
            async with conn.transaction():
                return await arun(conn, flow())

        return await self._tried(act, Again(budget_s=DEADLINE_S, harmless=False))

    async def _in(self, tx: psycopg.AsyncConnection[Any], work: Batch) -> list[Enqueued]:
        try:
            if work.is_small:
                return await self._send(tx, work, "resubmit")
            async with tx.transaction():  # a savepoint: whatever stops a later piece takes the pieces before it along
                return await self._send(tx, work, "resubmit")
        except Exception as error:
            told = caller_error(error)
            if told is error:
                raise
            raise told from error

    async def _own(self, work: Batch) -> list[Enqueued]:
        async def send(conn: AsyncBoundedConnection, again: Again) -> list[Enqueued]:
            if conn.plain and work.is_small:
                return await self._send(conn, work, again.on_terminal)
            async with conn.transaction():
                return await self._send(conn, work, again.on_terminal)

        again = Again(budget_s=DEADLINE_S, harmless=True)
        answers = work.settled(await self._tried(send, again), again=again.unsure)
        if again.unsure:
            for job_id in work.doubtful(answers):
                refuse_unknown_fate(await self.job(job_id), job_id)
        return answers

    async def _send(self, conn: psycopg.AsyncConnection[Any], work: Batch, on_terminal: str) -> list[Enqueued]:
        answers: list[Enqueued] = []
        for piece in work.pieces():
            answers += await arun(conn, jobs.enqueue(self._sql, piece, on_terminal=on_terminal, notify=self._notify))
        return answers

    async def _tried(self, work: Callable[[AsyncBoundedConnection, Again], Awaitable[T]], again: Again) -> T:
        while True:
            try:
                async with self._pool.connection() as conn:
                    again.sent = True
                    return await work(conn, again)
            except Exception as error:  # noqa: BLE001 - classified there
                pause = again.pause(error)
            await asyncio.sleep(pause)
