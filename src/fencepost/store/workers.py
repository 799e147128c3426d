"""What worker processes say about themselves and their tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from fencepost.sql.catalog import Catalog
from fencepost.store.flow import Flow, Stmt
from fencepost.store.views import TaskRow


def register(
    sql: Catalog,
    token: int,
    host: str,
    pid: int,
    tasks: Mapping[str, int],
    queues: Mapping[str, int] | Sequence[str] = (),
) -> Flow[None]:
    """Say that this process lives and which tasks (name to newest version) and queues it serves; twice is once.

    ``queues``: name to slots, or names. Jobs that were parked because nobody knew their task are woken by the leader's
    next round. The start is now, by the database's clock; a second call does not move it.
    """
    slots = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, 1)
    yield Stmt(
        sql.statement("workers/register"),
        {
            "token": token,
            "host": host,
            "pid": pid,
            "tasks": json.dumps(dict(tasks)),
            "queues": json.dumps(slots),
        },
    )


def is_registered(sql: Catalog, token: int) -> Flow[bool]:
    """Whether the database knows this process; a failover to a standby that lags behind may have forgotten it."""
    return bool((yield Stmt(sql.statement("workers/is_registered"), {"token": token})))


def unregister(sql: Catalog, token: int) -> Flow[None]:
    """Forget this process. It does not touch its leases: those are settled, released or rescued."""
    yield Stmt(sql.statement("workers/unregister"), {"token": token})


def publish_tasks(sql: Catalog, tasks: Sequence[TaskRow]) -> Flow[int]:
    """Publish what is known of tasks, so that any enqueuer and the reaper have it; how many rows changed (Q10).

    An older version of a task never replaces a newer one.
    """
    if not tasks:
        return 0
    rows = yield Stmt(sql.statement("workers/publish_tasks"), {"tasks": json.dumps([asdict(task) for task in tasks])})
    return int(rows[0][0] or 0)
