"""The options of one enqueue: what `Task.using` takes, checked before anything is sent (SPEC Q6).

Unknown names, naive datetimes, negative delays and text that PostgreSQL cannot hold are refused here with a sentence
that names the field. ``None`` means "the task's default" everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict

import psycopg

from fencepost.domain import request
from fencepost.domain.durations import Duration
from fencepost.domain.fields import word
from fencepost.domain.limits import NAME_CHARS
from fencepost.domain.request import unknown
from fencepost.errors import UsageError

__all__ = ["OPTIONS", "Duration", "EnqueueOptions", "Tx", "checked", "name", "unknown"]

Tx = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
"""The caller's connection, which must be inside a transaction."""

OPTIONS = frozenset({"tx", *request.OPTIONS})
"""Every name that ``using`` knows."""


class EnqueueOptions(TypedDict, total=False):
    """Keyword arguments of ``using(...)``.

    tx: the caller's psycopg connection, inside a transaction: the job exists exactly if that transaction commits.
    job_id: idempotent, global, kept while active and for the dedup window (SPEC Q3).
    run_at: aware datetime; not before it. delay: not before that long after the call (by the database's clock).
    priority: higher runs first. queue: a named lane.
    unique_key: at most one active job per task and key (SPEC Q4). concurrency_key, tenant: for limits and fairness.
    start_by: too late to start then: ends skipped. finish_by: ends failed with code DEADLINE.
    max_attempts, dedup_window: instead of the task's. tags: words to find it by. meta: a small JSON object.
    """

    tx: Tx | None
    job_id: str | None
    run_at: datetime | None
    delay: Duration | None
    priority: int | None
    queue: str | None
    unique_key: str | None
    concurrency_key: str | None
    tenant: str | None
    start_by: datetime | None
    finish_by: datetime | None
    max_attempts: int | None
    dedup_window: Duration | None
    tags: Iterable[str] | None
    meta: Mapping[str, Any] | None


def name(field: str, value: Any) -> str:
    """Text that can be a name in PostgreSQL: not empty, bounded, printable, no surrogates."""
    return word(field, value, NAME_CHARS)


def checked(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `NewJob` that these options set. Raises UsageError, naming task and option, before anything is done."""
    for option in options:
        if option not in OPTIONS:
            raise UsageError(unknown(f"{task}: using(...)", option, OPTIONS))
    return request.fields(task, {option: value for option, value in options.items() if option != "tx"})
