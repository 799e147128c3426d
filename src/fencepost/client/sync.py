"""The verbs for sync code. `fencepost.client.aio` has the same ones, awaited; a test keeps their signatures equal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import psycopg

from fencepost.client.again import Again
from fencepost.client.batch import Batch, batch
from fencepost.client.connection import DEADLINE_S, BoundedConnection
from fencepost.client.pool import Pool
from fencepost.client.refusals import caller_error, refuse_unknown_fate
from fencepost.client.transaction import require_sync
from fencepost.domain.job import Enqueued, NewJob
from fencepost.sql.catalog import Catalog
from fencepost.store import control, insight, jobs
from fencepost.store.drive import run
from fencepost.store.flow import Flow
from fencepost.store.views import JobRow, JobView, QueueView, StatusView, WorkerView

T = TypeVar("T")


class Client:
    """What a program asks of fencepost's tables, on connections of the app's own (or on the caller's, for enqueue).

    Every verb is one transaction. Raises OutageError while the database is away, SchemaError without a schema. Operator
    verbs record ``actor`` and ``reason`` (SPEC A3) and answer with words; they never raise because a job is elsewhere.
    """

    def __init__(self, sql: Catalog, pool: Pool, *, notify: bool = True) -> None:
        self._sql, self._pool, self._notify = sql, pool, notify

    def enqueue(self, new_jobs: Iterable[NewJob], tx: psycopg.Connection[Any] | None = None) -> list[Enqueued]:
        """Enqueue all or none; one answer each, in order (SPEC Q5, Q11).

        With ``tx`` in that transaction: what PostgreSQL itself refuses there (40001, a deadlock) is raised as the
        driver's error. Without, in one of our own, sent again on a lost connection: the job_ids make that harmless.
        """
        if tx is not None:
            require_sync(tx)
        work = batch(new_jobs)
        if not work.jobs:
            return []
        return self._own(work) if tx is None else self._in(tx, work)

    def job(self, job_id: str) -> JobView | None:
        """Everything about one job: contract columns, runs, audit; None if there is none."""
        return self._ask(lambda: insight.show_job(self._sql, job_id))

    def list_jobs(
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
        return self._ask(lambda: insight.list_jobs(self._sql, **wanted, limit=limit, before=before))

    def queues(self) -> list[QueueView]:
        """Every queue with its counts and whether it is paused, by whom and why."""
        return self._ask(lambda: insight.queues(self._sql))

    def workers(self) -> list[WorkerView]:
        """Every worker process that the database knows."""
        return self._ask(lambda: insight.workers(self._sql))

    def status(self) -> StatusView:
        """Counts by queue, state and label; oldest due job; stale leases; workers; leader; quarantine."""
        return self._ask(lambda: insight.status(self._sql))

    def cancel(self, job_id: str, *, actor: str, reason: str = "") -> str:
        """Cancel a queued job at once, a running one cooperatively (SPEC W8); the answer says which."""
        return self._act(lambda: control.cancel(self._sql, job_id, actor, reason))

    def retry(self, job_id: str, *, actor: str, reason: str = "") -> tuple[str, str | None]:
        """Submit an ended job again, same row and arguments; ("skipped", holder) if its key is held (SPEC R5)."""
        return self._act(lambda: control.retry(self._sql, job_id, actor, reason))

    def resolve(self, job_id: str, verdict: str, *, actor: str, reason: str = "") -> str:
        """Decide about a job in doubt: succeeded, queued, failed or cancelled (SPEC L7)."""
        return self._act(lambda: control.resolve(self._sql, job_id, verdict, actor, reason))

    def discard(self, job_id: str, *, actor: str, reason: str = "") -> str:
        """Remove an ended job and its history."""
        return self._act(lambda: control.discard(self._sql, job_id, actor, reason))

    def pause_queue(self, queue: str, *, actor: str, reason: str = "") -> str:
        """Let no worker claim from the queue; what runs goes on."""
        return self._act(lambda: control.pause_queue(self._sql, queue, actor, reason))

    def resume_queue(self, queue: str, *, actor: str, reason: str = "") -> str:
        """End a pause."""
        return self._act(lambda: control.resume_queue(self._sql, queue, actor, reason))

    def close(self) -> None:
        """Close the idle connections; the client may be used again."""
        self._pool.close()

    def _ask(self, flow: Callable[[], Flow[T]]) -> T:
        return self._tried(lambda conn, _: run(conn, flow(), binary=True), Again(budget_s=DEADLINE_S, harmless=True))

    def _act(self, flow: Callable[[], Flow[T]]) -> T:
        def act(conn: BoundedConnection, _: Again) -> T:
            with conn.transaction():
                return run(conn, flow())

        return self._tried(act, Again(budget_s=DEADLINE_S, harmless=False))

    def _in(self, tx: psycopg.Connection[Any], work: Batch) -> list[Enqueued]:
        try:
            if work.is_small:
                return self._send(tx, work, "resubmit")
            with tx.transaction():  # a savepoint: whatever stops a later piece takes the pieces before it along
                return self._send(tx, work, "resubmit")
        except Exception as error:
            told = caller_error(error)
            if told is error:
                raise
            raise told from error

    def _own(self, work: Batch) -> list[Enqueued]:
        def send(conn: BoundedConnection, again: Again) -> list[Enqueued]:
            if conn.plain and work.is_small:
                return self._send(conn, work, again.on_terminal)
            with conn.transaction():
                return self._send(conn, work, again.on_terminal)

        again = Again(budget_s=DEADLINE_S, harmless=True)
        answers = work.settled(self._tried(send, again), again=again.unsure)
        if again.unsure:
            for job_id in work.doubtful(answers):
                refuse_unknown_fate(self.job(job_id), job_id)
        return answers

    def _send(self, conn: psycopg.Connection[Any], work: Batch, on_terminal: str) -> list[Enqueued]:
        answers: list[Enqueued] = []
        for piece in work.pieces():
            answers += run(conn, jobs.enqueue(self._sql, piece, on_terminal=on_terminal, notify=self._notify))
        return answers

    def _tried(self, work: Callable[[BoundedConnection, Again], T], again: Again) -> T:
        while True:
            try:
                with self._pool.connection() as conn:
                    again.sent = True
                    return work(conn, again)
            except Exception as error:  # noqa: BLE001 - classified there
                pause = again.pause(error)
            time.sleep(pause)
