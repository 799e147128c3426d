"""The things that the reference model moves: jobs, leases, runs, ends. Times are whole seconds of the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

DAY = 86_400
LONGEST = 315_360_000
UNSTORABLE = '"\\u0000"'
"""A result that is JSON and that PostgreSQL cannot hold."""

ENDS = {
    "succeed": "succeeded",
    "fail": "failed",
    "skip": "skipped",
    "doubt": "in_doubt",
    "cancel": "cancelled",
}


class Input(NamedTuple):
    """One job as a caller wants it; times are seconds of the epoch."""

    job_id: str
    task: str
    payload: int = 0
    queue: str | None = None
    priority: int | None = None
    run_at: int | None = None
    delay_s: int | None = None
    key: str | None = None
    ckey: str | None = None
    tenant: str | None = None
    start_by: int | None = None
    finish_by: int | None = None
    max_attempts: int | None = None
    dedup_s: int | None = None
    version: int | None = None


class Fence(NamedTuple):
    """What a run is named by."""

    id: int
    run_count: int
    token: int


class Write(NamedTuple):
    """How a worker says that a run ended."""

    fence: Fence
    act: str
    delay: int = 0
    code: str | None = None
    error: str | None = None
    result: str | None = None


@dataclass
class Policy:
    """A published task; as it stands here, what holds for an unpublished one."""

    version: int = 1
    queue: str = "default"
    priority: int = 0
    max_attempts: int = 5
    max_crashes: int = 3
    on_lost: str = "requeue"
    at_most_once: bool = False
    ttl_s: int | None = None
    dedup_s: int = DAY
    keep_ok_s: int = 14 * DAY
    keep_bad_s: int = 90 * DAY


@dataclass
class Lease:
    """A row of ``running``: the fence, the times, and the policy of the moment of the claim."""

    token: int
    claimed_at: int
    ttl_s: int
    policy: Policy
    max_attempts: int
    keep_ok_s: int
    started_at: int | None = None
    heartbeat_at: int | None = None
    max_gap: float | None = None
    cancel_at: int | None = None
    progress: int | None = None

    @property
    def last_sign(self) -> int:
        return self.claimed_at if self.heartbeat_at is None else self.heartbeat_at

    @property
    def must_not_run_twice(self) -> bool:
        return self.policy.at_most_once or self.max_attempts == 1


@dataclass
class Run:
    """What is left of a run; ``spent`` None while it goes on."""

    run_count: int
    token: int | None
    claimed_at: int | None
    started_at: int | None
    ended_at: int | None
    last_beat_at: int | None
    max_gap: float | None
    how: str
    spent: bool | None = True
    code: str | None = None
    error: str | None = None
    refused: int = 0


@dataclass
class End:
    """A row of ``outcome``; its run has no token where the job ended while it waited."""

    state: str
    run: Run
    purge_at: int | None
    stale: bool = False
    result: Any = None


@dataclass
class Carry:
    """What a later run needs."""

    code: str | None = None
    error: str | None = None
    checkpoint: int | None = None
    progress: int | None = None


@dataclass
class Job:
    """One job for life. ``place``: where its one row lies, with deadlines and fair key of its own."""

    id: int
    wanted: Input
    created_at: int
    version: int = 1
    queue: str = ""
    priority: int = 0
    asked_at: int = 0
    start_by: int | None = None
    finish_by: int | None = None
    resubmits: int = 0
    manual: int = 0
    generation: int = 0
    place: str = "ready"
    reason: str | None = None
    run_at: int = 0
    row_start_by: int | None = None
    row_finish_by: int | None = None
    fair_key: str = ""
    run_count: int = 0
    attempts: int = 0
    crashes: int = 0
    snoozes: int = 0
    lease: Lease | None = None
    end: End | None = None
    carry: Carry | None = None
    runs: list[Run] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.end is not None:
            return self.end.state
        return "running" if self.lease else "queued"

    @property
    def order(self) -> tuple[int, int, int]:
        """What a claim goes by (SPEC C2)."""
        return -self.priority, self.run_at, self.id

    @property
    def holds_its_key(self) -> bool:
        return self.wanted.key is not None and self.state in {"queued", "running", "in_doubt"}

    def has_passed(self, now: int) -> bool:
        return any(at is not None and at <= now for at in (self.row_start_by, self.row_finish_by))

    def carried(self) -> Carry:
        self.carry = self.carry or Carry()
        return self.carry


@dataclass
class Leader:
    """A leased role."""

    token: int
    taken_at: int
    renewed_at: int
    expires_at: int
    epoch: int = 1
    good_at: int | None = None
