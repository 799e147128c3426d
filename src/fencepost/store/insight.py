"""What people and tools read. Bounded: lists by page, counts and histories by their newest, nothing behind an index.

Columns come in the order of the fields of `fencepost.store.views`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from fencepost.errors import UsageError
from fencepost.sql.catalog import Catalog
from fencepost.store.flow import Flow, Row, Stmt
from fencepost.store.views import (
    AuditView,
    CountView,
    JobRow,
    JobView,
    LeaderView,
    QueueView,
    RunView,
    StatusView,
    WorkerView,
)

V = TypeVar("V")

PAGE = 10_000
"""Most jobs of one list."""

MOST = 20_000
"""Rows of one place that are counted for a person."""

HISTORY = 500
"""Most runs and most acts that are shown of one job."""

_GROUPS = 5_000
_FSCK_BYTES = 32 * 1024 * 1024

_ENDED = frozenset({"failed", "cancelled", "skipped", "in_doubt"})
_LABELS = {
    "lost": "running",
    "running": "running",
    "recovered": "queued",
    "retrying": "queued",
    "scheduled": "queued",
    "parked": "queued",
    "paused": "queued",
    "queued": "queued",
}


def list_jobs(
    sql: Catalog,
    *,
    queue: str | None = None,
    task: str | None = None,
    state: str | None = None,
    label: str | None = None,
    tag: str | None = None,
    limit: int = 100,
    before: int | None = None,
) -> Flow[list[JobRow]]:
    """Jobs that fit every filter given, newest first; ``before`` (an id) pages on.

    A page costs what it shows when ``state`` or ``label`` is given. A filter by queue, task or tag alone reads past what
    does not fit.
    """
    if not 1 <= limit <= PAGE:
        message = f"limit must be from 1 to {PAGE}, not {limit}; page on with before"
        raise UsageError(message)
    implied = state or (label and _LABELS.get(label, label))
    wanted = {
        "queue": queue, "task": task, "state": implied if implied in _ENDED else state, "label": label, "tag": tag,
        "limit": limit, "before": before,
    }  # fmt: skip
    rows = yield Stmt(sql.statement(_list_of(implied)), wanted)
    if state is not None:
        rows = [row for row in rows if row[5] == state]  # the place was chosen by the state; a job may have moved since
    return [_view(JobRow, row) for row in rows]


def _list_of(state: str | None) -> str:
    """The statement that walks the place where jobs of this state lie."""
    if state in _ENDED:
        return "insight/list_ended"
    return {"running": "insight/list_running", "queued": "insight/list_queued"}.get(state or "", "insight/list_all")


def show_job(sql: Catalog, job_id: str) -> Flow[JobView | None]:
    """Everything about one job; None if there is none."""
    found = yield Stmt(sql.statement("insight/show_job"), {"job_id": job_id})
    if not found:
        return None
    which = {"id": found[0][0], "most": HISTORY}
    runs = yield Stmt(sql.statement("insight/show_runs"), which)
    audit = yield Stmt(sql.statement("insight/show_audit"), which)
    return _view(
        JobView,
        found[0],
        runs=tuple(_view(RunView, row) for row in runs),
        audit=tuple(_view(AuditView, row[1:]) for row in audit),
    )


def queues(sql: Catalog) -> Flow[list[QueueView]]:
    """Every queue that is configured, published, or waited or run in."""
    rows = yield Stmt(sql.statement("insight/queues"), {"most": MOST, "groups": _GROUPS})
    return [_view(QueueView, row) for row in rows]


def workers(sql: Catalog) -> Flow[list[WorkerView]]:
    """Every worker process that the database knows."""
    rows = yield Stmt(sql.statement("insight/workers"))
    return [_view(WorkerView, row) for row in rows]


def status(sql: Catalog) -> Flow[StatusView]:
    """One look at everything. ``fsck`` is None where the check would read too much."""
    counts = yield Stmt(sql.statement("insight/counts"), {"most": MOST})
    figures = yield Stmt(sql.statement("insight/figures"))
    leaders = yield Stmt(sql.statement("insight/leader"))
    lanes = yield from queues(sql)
    running, stale, alive, quarantine, size = figures[0]
    wrong = None
    if size <= _FSCK_BYTES:
        wrong = (yield Stmt(sql.statement("insight/fsck")))[0][0]
    ages = [lane.oldest_due_age_s for lane in lanes if lane.oldest_due_age_s is not None and not lane.paused]
    groups = tuple(_view(CountView, row) for row in counts)
    return StatusView(
        counts=groups,
        oldest_due_age_s=max(ages, default=None),
        running=running,
        stale=stale,
        workers=alive,
        leader=_view(LeaderView, leaders[0]) if leaders else None,
        quarantine=quarantine,
        fsck=wrong,
        capped=any(lane.capped for lane in lanes) or _ended(groups) >= MOST,
    )


def _ended(groups: tuple[CountView, ...]) -> int:
    return sum(group.jobs for group in groups if group.state not in {"queued", "running"})


def _mapping(value: Any) -> Mapping[str, Any]:
    """The object that the column should hold; whatever else a hand has written there, under an empty name."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {"": value}


def _view(kind: type[V], row: Row, **more: Any) -> V:
    names = [field.name for field in fields(kind) if field.name not in more]  # type: ignore[arg-type]
    values = dict(zip(names, row, strict=True))
    if "tags" in values:
        values["tags"] = tuple(map(str, values["tags"] or ()))  # an array may hold NULL, and arrays
    for name in ("meta", "queues", "tasks"):
        if name in values:
            values[name] = _mapping(values[name])
    return kind(**values, **more)
