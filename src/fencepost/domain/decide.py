"""The one place where a run's end is turned into a proposal; the statement disposes (DESIGN, idea 3)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from fencepost.domain.backoff import delay_for
from fencepost.domain.failure import ErrorClass, Failure
from fencepost.domain.limits import CODE_CHARS, ERROR_BYTES, LONGEST_BACKOFF_S, UNPAID_PAUSES
from fencepost.domain.outcome import (
    Done,
    Doubtful,
    Lost,
    Outcome,
    Raised,
    Released,
    Settlement,
    Skipped,
    Snoozed,
    Stopped,
    Unknown,
)
from fencepost.domain.policy import RetryPolicy
from fencepost.domain.storable import text as storable


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of the run that ended. ``attempts`` counts it."""

    attempts: int
    max_attempts: int
    snoozes: int
    at_most_once: bool
    created_at: datetime
    finish_by: datetime | None = None


def decide(
    run: RunFacts, outcome: Outcome, policy: RetryPolicy, now: datetime, rng: random.Random, stats: str | None = None
) -> Settlement:
    """Propose what becomes of the job. Pure: the same arguments give the same answer.

    A success or an end is final. A failure is retried while attempts and the time budget last, unless its class or the
    task's codes say otherwise. A pause is unpaid up to its bound, then an attempt is spent (SPEC R3).
    """
    match outcome:
        case Done(result=result):
            return Settlement(act="succeed", result=result, stats=stats)
        case Raised():
            return _failed(run, outcome, policy, now, rng, stats)
        case Snoozed(delay_s=delay_s, code=code, text=text):
            return _snoozed(run, delay_s, code, text, stats)
        case Skipped(code=code, text=text):
            return _end("skip", code, text, stats)
        case Stopped(text=text):
            return _end("cancel", None, text, stats)
        case Doubtful(code=code, text=text):
            return _end("doubt", code, text, stats)
        case Released(text=text):
            return _end("release", None, text, stats)
        case Lost(text=text):
            return _end("lost", None, text, stats)
        case Unknown(text=text):
            return _end("park", None, text, stats)
        case _:
            assert_never(outcome)


def _failed(
    run: RunFacts, outcome: Raised, policy: RetryPolicy, now: datetime, rng: random.Random, stats: str | None
) -> Settlement:
    failure = outcome.failure
    action = policy.codes.get(failure.code) or _default_action(failure)
    if action == "skip":
        return _end("skip", failure.code, failure.text, stats)
    if action == "in_doubt":
        return _end("doubt", failure.code, failure.text, stats)
    if action == "fail" or run.at_most_once or run.attempts >= run.max_attempts:
        return _end("fail", failure.code, failure.text, stats)
    delay = outcome.delay_s if outcome.delay_s is not None else failure.retry_after_s
    if delay is None or (delay == 0 and failure.retry_after_s is None):
        delay = delay_for(policy.wait, run.attempts, policy.jitter, rng) if delay is None else delay
    elif failure.retry_after_s is not None and outcome.delay_s is None:
        delay *= 1.0 + rng.uniform(0.0, policy.jitter)  # never earlier than asked, and not all at once
    delay = min(delay, LONGEST_BACKOFF_S)
    if policy.within_s is not None and (now - run.created_at).total_seconds() + delay > policy.within_s:
        return _end("fail", failure.code, failure.text, stats)
    return Settlement(
        act="retry", delay_s=delay, code=failure.code, error=storable(failure.text, ERROR_BYTES), stats=stats
    )


def _default_action(failure: Failure) -> str:
    match failure.kind:
        case ErrorClass.PERMANENT:
            return "fail"
        case ErrorClass.SKIP:
            return "skip"
        case ErrorClass.IN_DOUBT:
            return "in_doubt"
        case ErrorClass.RETRYABLE | ErrorClass.RATE_LIMITED | ErrorClass.UNKNOWN:
            return "retry"
        case _:
            assert_never(failure.kind)


def _snoozed(run: RunFacts, delay_s: float, code: str, text: str | None, stats: str | None) -> Settlement:
    error = None if text is None else storable(text, ERROR_BYTES)
    bounded = min(max(delay_s, 0.0), LONGEST_BACKOFF_S)
    if run.snoozes < UNPAID_PAUSES:
        return Settlement(act="snooze", delay_s=bounded, code=storable(code, CODE_CHARS), error=error, stats=stats)
    if run.at_most_once or run.attempts >= run.max_attempts:
        return _end("fail", code, text, stats)
    return Settlement(act="retry", delay_s=bounded, code=storable(code, CODE_CHARS), error=error, stats=stats)


def _end(act: str, code: str | None, text: str | None, stats: str | None) -> Settlement:
    return Settlement(
        act=act,
        code=None if code is None else storable(code, CODE_CHARS),
        error=None if not text else storable(text, ERROR_BYTES),
        stats=stats,
    )


Decide = Callable[[RunFacts, Outcome, RetryPolicy, datetime, random.Random], Settlement]
