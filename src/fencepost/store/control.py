"""What operators do to jobs and queues. Each act is one statement and leaves an audit row with it (SPEC A3)."""

from __future__ import annotations

from fencepost.errors import UsageError
from fencepost.sql.catalog import Catalog
from fencepost.store.flow import Flow, Stmt

VERDICTS = ("succeeded", "queued", "failed", "cancelled")


def cancel(sql: Catalog, job_id: str, actor: str, reason: str | None) -> Flow[str]:
    """Cancel a job (SPEC W8).

    ``cancelled``: it was queued and is over. ``requested``: it runs and is told. ``finished``: it was over.
    ``busy``: its end is being committed. ``unknown``: no such job.
    """
    rows = yield Stmt(sql.statement("control/cancel"), _act(job_id, actor, reason))
    return str(rows[0][0])


def retry(sql: Catalog, job_id: str, actor: str, reason: str | None) -> Flow[tuple[str, str | None]]:
    """Run an ended job again: same row, arguments and idempotency key, attempts from 0 (SPEC R5).

    ``resubmitted``, ``skipped`` with the holder of its unique key (nothing changed), ``active``, ``in_doubt`` (use
    resolve) or ``unknown``.
    """
    rows = yield Stmt(sql.statement("control/retry"), _act(job_id, actor, reason))
    answer, holder = rows[0]
    return str(answer), holder


def resolve(
    sql: Catalog, job_id: str, verdict: str, actor: str, reason: str | None, result: str | None = None
) -> Flow[str]:
    """Decide about a job in doubt (SPEC L7): ``resolved``, ``not_in_doubt`` or ``unknown``.

    ``verdict``: succeeded, queued (run it again), failed or cancelled; ``result`` is JSON text for succeeded.
    """
    if verdict not in VERDICTS:
        message = f"verdict must be one of {', '.join(VERDICTS)}, not {verdict!r}"
        raise UsageError(message)
    params = _act(job_id, actor, reason) | {"verdict": verdict, "result": result}
    rows = yield Stmt(sql.statement("control/resolve"), params)
    return str(rows[0][0])


def discard(sql: Catalog, job_id: str, actor: str, reason: str | None) -> Flow[str]:
    """Remove an ended job and its history: ``discarded``, ``active``, ``in_doubt`` (resolve it) or ``unknown``."""
    rows = yield Stmt(sql.statement("control/discard"), _act(job_id, actor, reason))
    return str(rows[0][0])


def pause_queue(sql: Catalog, queue: str, actor: str, reason: str | None) -> Flow[str]:
    """Let no worker claim from the queue from now on: ``paused``, or ``already`` (nothing changed)."""
    return (yield from _switch(sql, queue, True, actor, reason))


def resume_queue(sql: Catalog, queue: str, actor: str, reason: str | None) -> Flow[str]:
    """End a pause: ``resumed``, or ``already`` (nothing changed)."""
    return (yield from _switch(sql, queue, False, actor, reason))


def _switch(sql: Catalog, queue: str, paused: bool, actor: str, reason: str | None) -> Flow[str]:
    if not queue:
        raise UsageError("queue must be a name, not empty")
    params = {"queue": queue, "paused": paused, "actor": _actor(actor), "reason": reason or None}
    rows = yield Stmt(sql.statement("control/switch_queue"), params)
    if not rows:
        return "already"
    return "paused" if paused else "resumed"


def _act(job_id: str, actor: str, reason: str | None) -> dict[str, str | bool | None]:
    return {"job_id": job_id, "actor": _actor(actor), "reason": reason or None}


def _actor(actor: str) -> str:
    if not actor or not actor.strip():
        raise UsageError("actor must name who acts: an operator's act is kept with a name")
    return actor.strip()
