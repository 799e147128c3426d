"""What the duty tests set up: jobs claimed by workers that live or die at a word, on a database of their own."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import psycopg

from fencepost.domain.job import ClaimedJob, Fence, NewJob
from fencepost.duty.leader import Leader
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog
from fencepost.store import jobs, workers
from fencepost.store.wire import Wire

_tokens = itertools.count(1001)

QUICK = DutySettings(
    lease=1.5,
    heartbeat_interval=0.5,
    reaper_period=0.1,
    promoter_period=0.1,
    sweeper_period=0.1,
    gate_period=0.2,
    pruner_period=0.2,
    vacuum_period=0.2,
    batch=100,
)
"""The defaults divided by about ten."""


class Scene:
    """A migrated database and hands to move what lies in it."""

    def __init__(self, dsn: str, catalog: Catalog | None = None) -> None:
        self.dsn = dsn
        self.sql = catalog or Catalog()
        self.wire = Wire(dsn, deadline=10.0, name="test")

    def close(self) -> None:
        self.wire.close()

    def ask(self, query: str, *params: Any, **named: Any) -> list[tuple[Any, ...]]:
        """Rows of a query in SQL of the test's own."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            cursor = conn.execute(query, named or params or None)
            return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *params: Any) -> Any:
        return self.ask(query, *params)[0][0]

    def enqueue(self, number: int = 1, *, prefix: str = "job", **options: Any) -> list[str]:
        ids = [f"{prefix}:{n}" for n in range(number)]
        new = [NewJob(task="t", payload="{}", job_id=job_id, **options) for job_id in ids]
        for at in range(0, number, 500):
            self.wire.run(jobs.enqueue(self.sql, new[at : at + 500]))
        return ids

    def worker(self) -> Worker:
        return Worker(self)

    def states(self) -> dict[str, str]:
        return dict(self.ask("select job_id, state from fencepost.jobs"))

    def left_running(self) -> int:
        return int(self.one("select count(*) from fencepost.running"))

    def leader_row(self) -> tuple[int, int, bool]:
        """Token, epoch, alive."""
        (row,) = self.ask("select token, epoch, expires_at > clock_timestamp() from fencepost.leader") or [
            (0, 0, False)
        ]
        return row[0], row[1], row[2]


class Worker:
    """A worker process without a body: it registers, claims, beats when told to, and dies by no longer being told."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.token = scene, next(_tokens)
        self.held: list[ClaimedJob] = []
        scene.wire.run(workers.register(scene.sql, self.token, "test", self.token, {"t": 1}, {"default": 1000}))

    def claim(self, number: int = 100, *, ttl_s: float = 1.0) -> list[ClaimedJob]:
        got = self.scene.wire.run(
            jobs.claim(self.scene.sql, self.token, {"default": number}, max_bytes=1 << 24, ttl_s=ttl_s)
        )
        self.held += got.jobs
        return got.jobs

    @property
    def fences(self) -> list[Fence]:
        return [Fence(job.id, job.run_count, self.token) for job in self.held]

    def beat(self) -> dict[Fence, str]:
        return self.scene.wire.run(jobs.beat(self.scene.sql, self.fences, workers=[self.token]))

    def die_long_ago(self, seconds: float = 60.0) -> None:
        """Its last sign of life, and its leases', lie so far back."""
        self.scene.ask(
            "update fencepost.running set claimed_at = claimed_at - %s * interval '1 s', "
            "heartbeat_at = heartbeat_at - %s * interval '1 s' where token = %s",
            seconds, seconds, self.token,
        )  # fmt: skip
        self.scene.ask(
            "update fencepost.worker set heartbeat_at = heartbeat_at - %s * interval '1 s' where token = %s",
            seconds, self.token,
        )  # fmt: skip


@contextlib.contextmanager
def leading(scene: Scene, settings: DutySettings = QUICK) -> Iterator[Leader]:
    """A leader thread that runs for the length of a block."""
    leader = Leader(scene.dsn, scene.sql, settings, threading.Event())
    leader.start()
    try:
        yield leader
    finally:
        leader.halt()
        leader.join(15)
        assert not leader.is_alive()
