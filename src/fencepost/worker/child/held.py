"""One run in this process's hands, from the claim to the committed outcome."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.domain.job import ClaimedJob, Fence
from fencepost.worker.board import boot_ns
from fencepost.worker.life import Silence
from fencepost.worker.settings import MARGIN

if TYPE_CHECKING:
    from fencepost.tasks.task import Task

RELEASE, CANCEL, LOST, TIMEOUT = "release", "cancel", "lost", "timeout"
"""Why a body is told to end; the first reason stays."""

_TELLING = threading.Lock()
"""One for all runs: it is held for a few instructions, and making one for every run would cost more than it saves."""


class Held:
    """Implements `tasks.context.RunHandle`. Read by several threads; each field has one writer at a time."""

    __slots__ = (
        "abandoned", "at", "beat_s", "beaten_ns", "careful", "claimed", "ended", "fence", "interrupt", "limit",
        "limit_code", "marked", "progress", "save", "started_at", "stopping", "taken_at", "task", "task_ref", "told_at",
        "why",
    )  # fmt: skip

    def __init__(
        self,
        claimed: ClaimedJob,
        token: int,
        at: int,
        sent_ns: int,
        task: Task[..., object] | None,
        taken_at: float | None = None,
        beat_s: float = 0.0,
        save: Callable[[Fence, str], None] | None = None,
    ) -> None:
        self.claimed, self.at, self.task = claimed, at, task
        self.fence = Fence(claimed.id, claimed.run_count, token)
        self.beaten_ns = sent_ns
        self.beat_s = beat_s
        """How often its lease is beaten; 0: a plain lease, which no beat prolongs (SPEC C4)."""
        self.taken_at = time.monotonic() if taken_at is None else taken_at
        self.why: str | None = None
        self.told_at = 0.0
        self.ended = False
        """The body is over; its outcome may still be on its way."""
        self.marked = False
        """Its start is in the database: it begins, or ends as a lost run does."""
        self.stopping = False
        self.careful = claimed.at_most_once or claimed.max_attempts == 1
        """Must not run twice: its start must be durable before it begins (SPEC W12)."""
        self.interrupt: Callable[[Held], object] | None = None
        """How to reach the body once it runs: cancels an async task, wakes a waiting thread."""
        self.limit: float | None = None
        self.limit_code = "TIMEOUT"
        self.progress: str | None = None
        self.started_at: float | None = None
        self.task_ref: asyncio.Task[None] | None = None
        self.save = save
        self.abandoned = False

    # ------------------------------------------------------------------------------------------------- for the handler

    def cancel_requested(self) -> bool:
        """Whether the body should end: cancelled, its lease lost, its time over."""
        return self.why is not None

    def stop_requested(self) -> bool:
        """Whether the worker is shutting down."""
        return self.stopping

    def set_progress(self, json_text: str) -> None:
        """Kept until the clerk takes it along."""
        self.progress = json_text

    def save_checkpoint(self, json_text: str) -> None:
        """Blocking and durable. Raises LeaseLostError or OutageError."""
        assert self.save is not None
        self.save(self.fence, json_text)

    # --------------------------------------------------------------------------------------------------- for the worker

    def tell(self, why: str) -> bool:
        """Tell the body to end for this reason; False if it was told before, or is over. From any thread."""
        with _TELLING:
            if self.why is not None or self.ended:
                return False
            self.why, self.told_at = why, time.monotonic()
            interrupt = self.interrupt
        self.stopping = True
        if interrupt is not None:
            interrupt(self)
        return True

    def reach(self, interrupt: Callable[[Held], object]) -> None:
        """Say how the body can be reached from now on; if it was told to end already, that happens at once."""
        with _TELLING:
            self.interrupt = interrupt
            told = self.why is not None
        if told:
            interrupt(self)

    def end(self) -> None:
        """The body is over: from now on no reason to end it can come true."""
        with _TELLING:
            self.ended = True

    def has_outlived(self, now_ns: int) -> bool:
        """Whether its lease must be taken for lost: measured from the *sending* of the last good beat (SPEC W5)."""
        return now_ns - self.beaten_ns > int(self.claimed.ttl_s * MARGIN * 1e9)

    def silence(self) -> Silence:
        """When somebody who hears nothing of this process must take the lease for lost, as `has_outlived` would.

        The last beat may have been an interval before the silence. No beat prolongs a plain lease: it ends at its time.
        """
        trusted = self.claimed.ttl_s * MARGIN
        if self.beat_s:
            return Silence(trusted - self.beat_s)
        return Silence(min(1.0, trusted / 4), self.beaten_ns + int(trusted * 1e9))

    def is_overdue(self, now: float) -> bool:
        """Whether its time is over."""
        return self.limit is not None and now > self.limit

    def begin(self, settings_limit: float | None, code: str) -> None:
        """The body starts now, in this thread."""
        self.started_at = time.monotonic()
        self.limit = None if settings_limit is None else self.started_at + settings_limit
        self.limit_code = code

    def limit_ns(self, grace_s: float) -> int:
        """When its limit and so many seconds are over, on the board's clock; 0: never. Call right after `begin`."""
        return 0 if self.limit is None else boot_ns() + int((self.limit - (self.started_at or 0.0) + grace_s) * 1e9)
