"""Carry one attempt: decode, context, middleware, handler; whatever is raised becomes an outcome, never a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fencepost import logs
from fencepost.domain.classify import Classifier, unwrap
from fencepost.domain.control import Cancelled, InDoubt, Permanent, RetryLater, Skip, Snooze
from fencepost.domain.failure import ErrorClass, Failure
from fencepost.domain.job import ClaimedJob
from fencepost.domain.limits import RESULT_BYTES
from fencepost.domain.outcome import Done, Doubtful, Lost, Outcome, Raised, Released, Skipped, Snoozed, Stopped
from fencepost.domain.pause import is_short
from fencepost.domain.payload import encode
from fencepost.domain.storable import said, type_name
from fencepost.domain.storable import text as storable
from fencepost.errors import PayloadError
from fencepost.tasks.context import CURRENT_JOB, JobContext
from fencepost.tasks.middleware import Middlewares
from fencepost.tasks.task import Task
from fencepost.worker.child import copies
from fencepost.worker.child.held import CANCEL, LOST, RELEASE, TIMEOUT, Held

log = logging.getLogger("fencepost.worker")

_DONE = Done()

SHORT_PAUSES = 20
"""Pauses waited out in one run; further ones give the slot back."""


@dataclass(slots=True)
class Ended:
    """How a body ended, with its step statistics."""

    outcome: Outcome
    stats: str | None = None


def exhausted(c: ClaimedJob) -> Outcome:
    """Its attempts were spent before this claim: a deploy has lowered the bound, or a hand has raised the count (RTR-3)."""
    text = f"{c.attempts - 1} attempts are spent and {c.max_attempts} are allowed; it was not started again"
    return Raised(Failure(code="EXHAUSTED", kind=ErrorClass.PERMANENT, text=text))


class Attempts:
    """Runs bodies for one app. Composes each task's middleware once."""

    def __init__(
        self, middlewares: Middlewares, classifier: Classifier, redact: Callable[[str], str] | None = None
    ) -> None:
        self._middlewares, self._classifier, self._redact = middlewares, classifier, redact
        self._pid = os.getpid()
        self._async: dict[str, Callable[[JobContext], Awaitable[Any]]] = {}
        self._sync: dict[str, Callable[[JobContext], Any]] = {}

    def limit_of(self, held: Held) -> tuple[float, str]:
        """Seconds that this run may take, and the code of the limit that ends first."""
        assert held.task is not None
        policy = held.task.policy
        limit, code = policy.max_duration_s, "MAX_DURATION"
        if policy.timeout_s is not None and policy.timeout_s < limit:
            limit, code = policy.timeout_s, "TIMEOUT"
        if held.claimed.finish_in_s is not None:
            left = max(held.claimed.finish_in_s - (time.monotonic() - held.taken_at), 0.001)
            if left < limit:
                limit, code = left, "DEADLINE"
        return limit, code

    async def run_async(self, held: Held) -> Ended:
        """Run an async body in the current task. Never raises: a run without an outcome would hold its slot for ever."""
        try:
            return await self._run_async(held)
        except BaseException as error:  # noqa: BLE001 - a fault of ours, or of something that a body left behind
            return self._failed(held, error)

    def run_sync(self, held: Held) -> Ended:
        """Run a plain body in the current thread. Never raises either."""
        try:
            return self._run_sync(held)
        except BaseException as error:  # noqa: BLE001
            return self._failed(held, error)

    def _failed(self, held: Held, error: BaseException) -> Ended:
        held.end()
        log.error("job %s ended, but how could not be told: %s", held.claimed.job_id, type_name(error))
        return Ended(self._outcome(held, error))

    async def _run_async(self, held: Held) -> Ended:
        job = self._prepare(held)
        if not isinstance(job, JobContext):
            return Ended(job)
        pauses = 0
        while True:
            try:
                result = await self._body_async(held)(job)
                self._end_copy(held, None)
                return self._done(held, job, result)
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its job's failure
                self._end_copy(held, error)
                wait = self._short_pause(held, error, pauses)
                if wait is None:
                    return self._ended(held, job, error)
            pauses += 1
            try:
                await asyncio.sleep(wait)
            except BaseException as error:  # noqa: BLE001 - told to end while waiting
                return self._ended(held, job, error)

    def _run_sync(self, held: Held) -> Ended:
        job = self._prepare(held)
        if not isinstance(job, JobContext):
            return Ended(job)
        pauses = 0
        while True:
            try:
                result = self._body_sync(held)(job)
                self._end_copy(held, None)
                return self._done(held, job, result)
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its job's failure
                self._end_copy(held, error)
                wait = self._short_pause(held, error, pauses)
                if wait is None:
                    return self._ended(held, job, error)
            pauses += 1
            ends = time.monotonic() + wait
            while held.why is None and time.monotonic() < ends:
                time.sleep(min(0.05, max(0.0, ends - time.monotonic())))
            if held.why is not None:
                return self._ended(held, job, Cancelled())

    def _prepare(self, held: Held) -> JobContext | Outcome:
        """The context with its arguments, known to this context and its logs; or why there is none."""
        assert held.task is not None
        try:
            arguments = held.task.contract.decode(held.claimed.payload)
        except BaseException as error:  # noqa: BLE001 - a payload may hold anything
            text = error if isinstance(error, PayloadError) else PayloadError(said(error))
            failure = self._classifier.classify(text)
            return Raised(Failure(code="PAYLOAD_INVALID", kind=ErrorClass.PERMANENT, text=failure.text))
        c = held.claimed
        job = JobContext(c, held, ends=held.limit, redact=self._redact, arguments=arguments)
        CURRENT_JOB.set(job)
        logs.bind(c.job_id, c.task, c.attempts, c.run_count)
        return job

    def _body_async(self, held: Held) -> Callable[[JobContext], Awaitable[Any]]:
        """The task with its middlewares around it, put together once."""
        task = held.task
        assert task is not None
        body = self._async.get(task.name)
        if body is None:
            body = self._async[task.name] = self._middlewares.around_async(task.body())  # type: ignore[arg-type]
        return body

    def _body_sync(self, held: Held) -> Callable[[JobContext], Any]:
        """The same for threads and processes."""
        task = held.task
        assert task is not None
        body = self._sync.get(task.name)
        if body is None:
            body = self._sync[task.name] = self._middlewares.around_sync(task.body())
        return body

    def _end_copy(self, held: Held, error: BaseException | None) -> None:
        if os.getpid() != self._pid:
            copies.leave(held.claimed.job_id, error)

    def _done(self, held: Held, job: JobContext, result: Any) -> Ended:
        held.end()
        stats = None if job.is_silent else _last_words(job)
        if held.why == TIMEOUT:  # it returned all the same, but too late: nobody may count on it
            return Ended(self._timed_out(held), stats)
        if held.why == LOST:
            return Ended(Lost(), stats)
        if result is None:
            return Ended(_DONE, stats)
        try:
            text = encode(result, limit=RESULT_BYTES, what="the result")
        except BaseException as error:  # noqa: BLE001 - a result may be anything
            told = self._text(error) or f"the result cannot be stored: {type_name(error)}"
            failure = Failure(code="UNSTORABLE", kind=ErrorClass.PERMANENT, text=told)
            return Ended(Raised(failure), stats)
        return Ended(Done(text), stats)

    def _ended(self, held: Held, job: JobContext, error: BaseException) -> Ended:
        held.end()
        return Ended(self._outcome(held, error), _last_words(job))

    def _outcome(self, held: Held, error: BaseException) -> Outcome:
        error = unwrap(error)
        interrupted = isinstance(error, asyncio.CancelledError | Cancelled)
        if held.why == LOST:
            return Lost()
        if held.why == TIMEOUT:
            return self._timed_out(held)
        if held.why == RELEASE and interrupted:
            return Released("the worker was stopped")
        if held.why == CANCEL and interrupted:
            return Stopped()
        text = self._text(error)
        match error:
            case Cancelled():
                return Stopped(text)
            case Skip():
                return Skipped(error.code, text)
            case InDoubt():
                return Doubtful(error.code, text)
            case Snooze():
                return Snoozed(error.delay_s, error.code, text)
            case RetryLater():
                return Raised(Failure(code=error.code, kind=ErrorClass.RETRYABLE, text=text or ""), error.delay_s)
            case Permanent():
                return Raised(
                    Failure(code=error.code, kind=ErrorClass.PERMANENT, text=self._classifier.classify(error).text)
                )
        return Raised(self._classifier.classify(error, datetime.now(UTC)))

    def _timed_out(self, held: Held) -> Outcome:
        kind = ErrorClass.PERMANENT if held.limit_code == "DEADLINE" else ErrorClass.RETRYABLE
        ran = 0.0 if held.started_at is None else time.monotonic() - held.started_at
        text = f"stopped after {ran:.1f} s: {_LIMITS[held.limit_code]}"
        return Raised(Failure(code=held.limit_code, kind=kind, text=text))

    def _short_pause(self, held: Held, error: BaseException, pauses: int) -> float | None:
        """Seconds to wait in the slot before the body is called again; None: the run ends."""
        if held.why is not None or held.stopping or pauses >= SHORT_PAUSES or held.claimed.at_most_once:
            return None
        if not isinstance(error, Exception):
            return None
        failure = self._classifier.classify(error, datetime.now(UTC))
        wait = failure.retry_after_s if failure.kind is ErrorClass.RATE_LIMITED else None
        if wait is None or not is_short(wait):
            return None
        if held.limit is not None and time.monotonic() + wait > held.limit:
            return None
        return max(wait, 0.05)

    def _text(self, error: BaseException) -> str | None:
        text = said(error)
        return storable(self._redact(text) if self._redact else text) if text else None


def _last_words(job: JobContext) -> str | None:
    """Progress and figures of a body that is over. What cannot be written down is left out: the outcome is not."""
    try:
        job.flush_progress()
    except BaseException as error:  # noqa: BLE001 - a text may run code of the user's
        log.warning("the last progress of job %s was not recorded: %s", job.job_id, type_name(error))
    try:
        return job.stats_json()
    except BaseException as error:  # noqa: BLE001
        log.warning("the figures of job %s were not recorded: %s", job.job_id, type_name(error))
        return None


_LIMITS = {
    "TIMEOUT": "the task's timeout",
    "MAX_DURATION": "the task's maximum duration",
    "DEADLINE": "the job's finish_by has passed",
}
AnyTask = Task[..., Any]
