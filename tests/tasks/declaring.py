"""An app without an app: declares tasks on a registry of its own and remembers what was enqueued."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from fencepost.domain.job import Answer, Enqueued, NewJob
from fencepost.tasks.declare import Declaration, TaskOptions
from fencepost.tasks.registry import Registry


class Bench:
    def __init__(self) -> None:
        self.registry = Registry()
        self.sent: list[NewJob] = []
        self.txs: list[Any] = []

    def task(self, name: str, **options: Unpack[TaskOptions]) -> Declaration:
        return Declaration(name, options, self.registry, self)

    def enqueue(self, jobs: Iterable[NewJob], tx: Any) -> list[Enqueued]:
        new = list(jobs)
        self.sent += new
        self.txs.append(tx)
        return [Enqueued(status=Answer.CREATED, job_id=job.job_id or "made", id=n) for n, job in enumerate(new)]

    async def aenqueue(self, jobs: Iterable[NewJob], tx: Any) -> list[Enqueued]:
        return self.enqueue(jobs, tx)
