"""What is read for people, tools and the leader: frozen values, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One line of a list of jobs. ``state`` is one of the seven; ``label`` says more (SPEC L1)."""

    id: int
    job_id: str
    task: str
    version: int
    queue: str
    state: str
    label: str
    priority: int
    attempts: int
    run_count: int
    last_error_code: str | None
    last_error: str | None
    created_at: datetime
    run_at: datetime
    heartbeat_at: datetime | None
    next_retry_at: datetime | None
    finished_at: datetime | None
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run of a job (SPEC L3). ``spent`` is None while it runs; ``refused`` counts late writes."""

    run_count: int
    token: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    last_beat_at: datetime | None
    max_gap_s: float | None
    how: str
    spent: bool | None
    error_code: str | None
    error: str | None
    stats: Any
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditView:
    """One act of an operator (SPEC A3)."""

    at: datetime
    actor: str
    action: str
    target: str | None
    reason: str | None
    was: str | None
    became: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """Everything about one job: the contract columns, its runs and who acted on it."""

    id: int
    job_id: str
    task: str
    version: int
    queue: str
    state: str
    label: str
    priority: int
    attempts: int
    run_count: int
    crashes: int
    snoozes: int
    last_error_code: str | None
    last_error: str | None
    created_at: datetime
    run_at: datetime
    claimed_at: datetime | None
    heartbeat_at: datetime | None
    next_retry_at: datetime | None
    cancel_at: datetime | None
    finished_at: datetime | None
    parked_for: str | None
    worker: int | None
    stale: bool
    payload: Any
    result: Any
    progress: Any
    checkpoint: Any
    unique_key: str | None
    concurrency_key: str | None
    tenant: str | None
    start_by: datetime | None
    finish_by: datetime | None
    tags: tuple[str, ...]
    meta: Mapping[str, Any]
    resubmits: int
    manual: int
    generation: int
    runs: tuple[RunView, ...] = ()
    audit: tuple[AuditView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One queue. Counts stop at a bound (``capped``); the age is of the oldest due job that could run."""

    name: str
    paused: bool
    fair: bool
    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None
    ready: int
    delayed: int
    parked: int
    running: int
    oldest_due_age_s: float | None
    capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CountView:
    """So many jobs of a queue have this state and label."""

    queue: str
    state: str
    label: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderView:
    """Who holds the leader's lease, by the database's clock."""

    token: int
    epoch: int
    alive: bool
    taken_at: datetime
    renewed_at: datetime
    host: str | None
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """One look at everything. Counts are of a bounded number of rows of each place (``capped``: there are more).

    ``oldest_due_age_s`` leaves out paused queues; ``fsck`` is None where the check would read too much.
    """

    counts: tuple[CountView, ...]
    oldest_due_age_s: float | None
    running: int
    stale: int
    workers: int
    leader: LeaderView | None
    quarantine: int
    fsck: int | None
    capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One worker process that the database knows. ``queues``: name to slots; ``tasks``: name to newest version."""

    token: int
    host: str | None
    pid: int | None
    queues: Mapping[str, int]
    tasks: Mapping[str, int]
    started_at: datetime
    heartbeat_at: datetime
    alive: bool
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """What a worker publishes of a task: defaults for any enqueuer, policy for claim and reaper. Times in seconds."""

    name: str
    version: int = 1
    queue: str = "default"
    priority: int = 0
    max_attempts: int = 5
    max_crashes: int = 3
    on_lost: str = "requeue"
    at_most_once: bool = False
    lease_only: bool = False
    ttl_s: float | None = None
    dedup_s: float = 86_400.0
    keep_ok_s: float = 14 * 86_400.0
    keep_bad_s: float = 90 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """Which database service was last found good, and when by its own clock (SPEC C11)."""

    started_at: datetime
    timeline: int | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The answer to a try for the leader's lease. ``record`` is what the leader before left."""

    leading: bool
    epoch: int
    record: ServiceRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One look at the service: start, timeline, clock, and the last beats of the workers."""

    started_at: datetime
    timeline: int | None
    now: datetime
    beats: tuple[datetime, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumCandidate:
    """A narrow table with dead rows. ``allowed``: this role may VACUUM it."""

    name: str
    dead: int
    allowed: bool
