"""A claimed job and a worker's side of it, for tests that need a context without a worker."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fencepost.domain.job import ClaimedJob, Fence
from fencepost.tasks.context import JobContext

CLAIMED = ClaimedJob(
    id=7,
    run_count=2,
    job_id="receipt:7",
    queue="mail",
    task="receipt.send",
    version=1,
    payload="{}",
    attempts=1,
    max_attempts=5,
    crashes=0,
    snoozes=0,
    generation=0,
    at_most_once=False,
    ttl_s=30.0,
    due_s=datetime(2026, 1, 1, tzinfo=UTC).timestamp(),
    created_s=datetime(2026, 1, 1, tzinfo=UTC).timestamp(),
    finish_by=None,
    fair_key=None,
    checkpoint=None,
    meta=None,
)


class Handle:
    """What a worker is to a run."""

    def __init__(self) -> None:
        self.fence = Fence(7, 2, 99)
        self.cancel = False
        self.stop = False
        self.progress: list[str] = []
        self.checkpoints: list[str] = []

    def cancel_requested(self) -> bool:
        return self.cancel

    def stop_requested(self) -> bool:
        return self.stop

    def set_progress(self, json_text: str) -> None:
        self.progress.append(json_text)

    def save_checkpoint(self, json_text: str) -> None:
        self.checkpoints.append(json_text)


def context(
    handle: Handle | None = None,
    *,
    limit_s: float | None = None,
    redact: Any = None,
    arguments: Any = None,
    **claimed: Any,
) -> JobContext:
    return JobContext(
        replace(CLAIMED, **claimed),
        handle or Handle(),
        ends=None if limit_s is None else time.monotonic() + limit_s,
        redact=redact,
        arguments=arguments,
    )
