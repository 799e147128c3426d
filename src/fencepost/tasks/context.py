"""What a running handler knows of its job, and what it may tell fencepost on the way.

The context is the argument annotated ``JobContext``; code deep below it finds the same object with `current_job`. It
works the same in async, thread and process handlers, because it speaks to the worker only through `RunHandle`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from functools import cache
from hashlib import sha256
from json import dumps
from typing import Any, Protocol
from uuid import UUID

from fencepost.domain.control import Cancelled
from fencepost.domain.job import ClaimedJob, Fence
from fencepost.domain.limits import CHECKPOINT_BYTES, PROGRESS_TEXT
from fencepost.domain.payload import decode, encode
from fencepost.domain.storable import said
from fencepost.domain.storable import text as storable_text
from fencepost.errors import UsageError
from fencepost.tasks.stats import Stats

PROGRESS_EVERY_S = 0.25
"""Progress is handed to the worker at most this often; it reaches the database with the next beat."""

CURRENT_JOB: ContextVar[JobContext] = ContextVar("fencepost_current_job")
"""Set by the worker around each run, in the run's own context; handlers use `current_job`."""


class RunHandle(Protocol):
    """The worker's side of one run. Every method may be called from any thread of the process that runs the handler."""

    @property
    def fence(self) -> Fence:
        """The right to write for this run."""

    def cancel_requested(self) -> bool:
        """Whether somebody asked for the end of this job, or its lease is lost."""

    def stop_requested(self) -> bool:
        """Whether the worker is shutting down."""

    def set_progress(self, json_text: str) -> None:
        """Remember the newest progress for the next beat. Does not block and does not touch the database."""

    def save_checkpoint(self, json_text: str) -> None:
        """Write the checkpoint, blocking until it is durable. Raises LeaseLostError or OutageError."""


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds job_id, task, attempt and run to every record; a call's own ``extra`` is kept."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Merge the job's fields into the record's extra."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class JobContext:
    """One run of one job, as its handler sees it.

    Facts (all read-only): ``id``, ``job_id``, ``task``, ``queue``, ``attempt`` (1 for the first), ``max_attempts``,
    ``run_count`` (claims so far; part of the fence), ``generation`` (rises only when a succeeded job is submitted
    anew), ``tags``, ``meta``, ``deadline`` (aware datetime by this machine's clock, or None) and ``stats``.

    Safe to use from every thread that the handler starts. Of no use after the run: what it writes is refused by the
    fence.
    """

    __slots__ = (
        "_arguments",
        "_checkpoint",
        "_claimed",
        "_deadline",
        "_ends",
        "_handle",
        "_logger",
        "_meta",
        "_pending",
        "_redact",
        "_sent_at",
        "_stats",
    )

    def __init__(
        self,
        claimed: ClaimedJob,
        handle: RunHandle,
        *,
        ends: float | None = None,
        redact: Callable[[str], str] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Made by the worker. ``ends``: when the run is stopped (by timeout, finish_by ...), on the monotonic clock."""
        self._claimed = claimed
        self._handle = handle
        self._redact = redact
        self._arguments: Mapping[str, Any] = {} if arguments is None else arguments
        self._ends = ends
        self._deadline: datetime | None = None
        self._sent_at = 0.0
        self._pending: dict[str, Any] | None = None
        self._stats: Stats | None = None
        self._logger: JobLogger | None = None
        self._meta: Mapping[str, Any] | None = None
        self._checkpoint: Any = claimed  # a marker: not decoded yet

    def __repr__(self) -> str:
        c = self._claimed
        return f"<JobContext {c.task} {c.job_id} attempt {c.attempts} of {c.max_attempts}, run {c.run_count}>"

    # ------------------------------------------------------------------ facts

    @property
    def id(self) -> int:
        """The job's number in the database."""
        return self._claimed.id

    @property
    def job_id(self) -> str:
        """The job's name for life, given by whoever enqueued it or made by fencepost."""
        return self._claimed.job_id

    @property
    def task(self) -> str:
        """The task's name."""
        return self._claimed.task

    @property
    def queue(self) -> str:
        """The queue this run was claimed from."""
        return self._claimed.queue

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The typed arguments of the handler, for middleware; what is changed in them the handler sees."""
        return self._arguments

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; runs that were handed back unspent do not count."""
        return self._claimed.attempts

    @property
    def max_attempts(self) -> int:
        """How many attempts the job has in all."""
        return self._claimed.max_attempts

    @property
    def run_count(self) -> int:
        """How often the job was claimed, this run included."""
        return self._claimed.run_count

    @property
    def generation(self) -> int:
        """How often a *succeeded* job of this job_id was submitted anew (SPEC E2)."""
        return self._claimed.generation

    @property
    def tags(self) -> tuple[str, ...]:
        """The job's tags."""
        return self._claimed.tags

    @property
    def meta(self) -> Mapping[str, Any]:
        """The job's metadata."""
        if self._meta is None:
            self._meta = decode(self._claimed.meta) if self._claimed.meta else {}
        return self._meta or {}

    @property
    def fence(self) -> Fence:
        """(id, run_count, lease token): what a write of this run's own must name (SPEC C3)."""
        return self._handle.fence

    @property
    def deadline(self) -> datetime | None:
        """When this run is stopped, by this machine's clock as it was when first asked; None without a limit."""
        if self._deadline is None and self._ends is not None:
            self._deadline = datetime.now(UTC) + timedelta(seconds=self._ends - time.monotonic())
        return self._deadline

    def remaining(self) -> float | None:
        """Seconds until this run is stopped, never below 0; None without a limit. By this machine's monotonic clock."""
        return None if self._ends is None else max(0.0, self._ends - time.monotonic())

    @property
    def logger(self) -> JobLogger:
        """A logger that puts job_id, task, attempt and run on every record (logger name ``fencepost.job``)."""
        if self._logger is None:
            c = self._claimed
            fields = {"job_id": c.job_id, "task": c.task, "attempt": c.attempts, "run": c.run_count}
            self._logger = JobLogger(logging.getLogger("fencepost.job"), fields)
        return self._logger

    # ------------------------------------------------------------------ steering

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the end of this job, or its lease is lost: clean up and return (SPEC W8)."""
        return self._handle.cancel_requested()

    @property
    def stopping(self) -> bool:
        """Whether the worker is shutting down: save a checkpoint and hand the job back, or finish soon (SPEC W3)."""
        return self._handle.stop_requested()

    def check(self) -> None:
        """Raise ``Cancelled`` if the job was cancelled; cheap enough for a tight loop."""
        if self._handle.cancel_requested():
            raise Cancelled

    def idempotency_key(self, *parts: str | int | UUID | date) -> str:
        """A key for an outside effect, the same over attempts, rescues, manual retries and restores (SPEC E2).

        With parts it names the business fact and nothing else: the same parts give the same key in every task and job
        (7 and "7" are the same part). Without parts it names this job: (task, job_id, generation). 35 characters
        of [a-z0-9_].
        """
        for part in parts:
            if isinstance(part, bool) or not isinstance(part, str | int | UUID | date):
                message = f"idempotency_key takes text, whole numbers, UUIDs and dates, not {type(part).__name__}"
                raise UsageError(message)
        c = self._claimed
        named = ["parts", *map(_part, parts)] if parts else ["job", c.task, c.job_id, str(c.generation)]
        return "fp_" + sha256(dumps(named).encode()).hexdigest()[:32]

    # ------------------------------------------------------------------ what the run tells

    @property
    def stats(self) -> Stats:
        """Figures stored with the outcome: ``job.stats["rows"] = 7``; numbers and short text (SPEC W10)."""
        if self._stats is None:
            self._stats = Stats(self._redact)
        return self._stats

    def step(self, name: str) -> AbstractContextManager[None]:
        """Count and time a part of the run: ``with job.step("render"): ...``, in sync and async handlers alike.

        The outcome carries per name: how often, seconds in all, how many ended well and how many raised.
        """
        return self.stats.step(name)

    @property
    def is_silent(self) -> bool:
        """Whether the run has neither progress left to tell nor figures. For the worker."""
        return self._pending is None and self._stats is None

    def stats_json(self) -> str | None:
        """The figures as JSON text for the outcome; None if there are none. Never raises."""
        return None if self._stats is None else self._stats.to_json()

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Tell how far the run is. Throttled: the newest value rides along with the next beat (SPEC W9).

        Cheap enough for every row of an import. The text is redacted and cut. Never raises for what it is given.
        """
        self._pending = {"done": done, "total": total, "text": text}
        now = time.monotonic()
        if now - self._sent_at >= PROGRESS_EVERY_S or (total is not None and done >= total):
            self._sent_at = now
            self.flush_progress()

    def flush_progress(self) -> None:
        """Hand over what the throttle still holds; called by the worker when the handler ends."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        shown = {k: v for k, v in pending.items() if v is not None}
        if "text" in shown:
            spoken = said(shown["text"])
            shown["text"] = storable_text(self._redact(spoken) if self._redact else spoken, PROGRESS_TEXT)
        try:
            self._handle.set_progress(encode(shown, limit=4 * PROGRESS_TEXT, what="progress"))
        except UsageError:
            self.logger.debug("progress that is no number was not recorded")

    @property
    def checkpoint(self) -> Any:
        """What an earlier run (or this one) saved last; None if nothing was. Dropped when the job is resubmitted."""
        if self._checkpoint is self._claimed:
            raw = self._claimed.checkpoint
            self._checkpoint = None if raw is None else decode(raw)
        return self._checkpoint

    def save_checkpoint(self, value: Any) -> None:
        """Store ``value`` (JSON, up to 256 KiB) for the next run; durable when the call returns (SPEC W9).

        Blocks for one round trip: in async handlers use `asave_checkpoint`. Raises PayloadError for what JSON cannot
        hold, LeaseLostError if another run owns the job now, OutageError while the database is away.
        """
        encoded = encode(value, limit=CHECKPOINT_BYTES, what="checkpoint")
        self._handle.save_checkpoint(encoded)
        self._checkpoint = decode(encoded)

    async def asave_checkpoint(self, value: Any) -> None:
        """`save_checkpoint` for async handlers: the event loop goes on meanwhile."""
        encoded = encode(value, limit=CHECKPOINT_BYTES, what="checkpoint")
        # Not asyncio.to_thread: those few threads are the handlers' own, and may all be busy for long.
        await asyncio.get_running_loop().run_in_executor(_checkpoints(), self._handle.save_checkpoint, encoded)
        self._checkpoint = decode(encoded)


@cache
def _checkpoints() -> ThreadPoolExecutor:
    """Threads in which async handlers wait for their checkpoints to be durable."""
    return ThreadPoolExecutor(8, thread_name_prefix="fencepost-checkpoint")


def _part(part: str | int | UUID | date) -> str:
    return part.isoformat() if isinstance(part, date) else str(part)


def current_job() -> JobContext:
    """The context of the job that is running here, for code deep below the handler; the same object as its argument.

    Raises UsageError outside a run. A thread that the handler starts itself sees it only with the handler's context
    (``contextvars.copy_context().run``); ``asyncio.to_thread`` and tasks copy it by themselves.
    """
    try:
        return CURRENT_JOB.get()
    except LookupError:
        message = "no job is running here: current_job() works only inside a handler that a worker runs"
        raise UsageError(message) from None
