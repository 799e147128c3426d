"""The one place where a run's end is turned into a proposal; the statement disposes (one road out of ``running``).

What only the database can judge is left to it: whether a cancel was requested or ``finish_by`` would pass before the next
attempt (by its clock, not this machine's), and how a lost run is judged (crashes, ``on_lost``).
"""

from __future__ import annotations

import math
import random
from datetime import datetime
from typing import Any, Protocol, assert_never

from fencepost.domain.backoff import delay_for
from fencepost.domain.failure import FINAL_CODES, LIMIT_CODES, UNKNOWN, ErrorClass, Failure
from fencepost.domain.limits import CODE_CHARS, ERROR_BYTES, LEAST_PAUSE_S, LONGEST_BACKOFF_S, UNPAID_PAUSES
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


class RunFacts(Protocol):
    """What must be known of the run that ended; a `ClaimedJob` says it. ``attempts`` counts the run."""

    @property
    def attempts(self) -> int:
        """Runs that were paid for."""

    @property
    def max_attempts(self) -> int:
        """How many may be."""

    @property
    def snoozes(self) -> int:
        """Pauses that were not paid for."""

    @property
    def at_most_once(self) -> bool:
        """Whether the body must not run twice."""

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued."""


SUCCEEDED = Settlement(act="succeed")


def decide(
    run: RunFacts, outcome: Outcome, policy: RetryPolicy, now: datetime, rng: random.Random, stats: str | None = None
) -> Settlement:
    """Propose what becomes of the job. Pure: the same arguments give the same answer.

    A success or an end is final. A failure is retried while attempts and the time budget last, unless its class or the
    task's codes say otherwise (SPEC R1, R2). A pause is unpaid up to its bound, then an attempt is spent (R3). A body
    that must not run twice is never started again for a failure or a pause that somebody else asked for: it ends
    ``failed``, or ``in_doubt`` if it was stopped from outside (W12). Always storable, whatever the outcome holds.
    """
    match outcome:
        case Done(result=result):
            if result is None and stats is None:
                return SUCCEEDED
            return Settlement(act="succeed", result=result, stats=stats)
        case Raised():
            return _failed(run, outcome, policy, now, rng, stats)
        case Snoozed(delay_s=delay_s, code=code, text=text):
            return _paused(run, _bounded(delay_s), code, text, stats)
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
    code = _code(failure.code) or UNKNOWN
    action = _action(code, failure, policy)
    if run.at_most_once and action in ("retry", "pause", "fail"):
        action = "in_doubt" if code in LIMIT_CODES else "fail"
    if action == "skip":
        return _end("skip", code, failure.text, stats)
    if action == "in_doubt":
        return _end("doubt", code, failure.text, stats)
    if action == "fail" or (action == "retry" and run.attempts >= run.max_attempts):
        return _end("fail", code, failure.text, stats)
    delay = _delay(outcome, policy, rng, run.snoozes + 1 if action == "pause" else run.attempts)
    if policy.within_s is not None and (now - run.created_at).total_seconds() + delay > policy.within_s:
        return _end("fail", code, failure.text, stats)
    if action == "pause":
        return _paused(run, delay, code, failure.text, stats)
    return Settlement(act="retry", delay_s=delay, code=code, error=_text(failure.text), stats=stats)


def _action(code: str, failure: Failure, policy: RetryPolicy) -> str:
    """retry, pause, fail, skip or in_doubt."""
    if code not in FINAL_CODES and (said := policy.codes.get(code)) is not None:
        return said
    match failure.kind:
        case ErrorClass.PERMANENT:
            return "fail"
        case ErrorClass.SKIP:
            return "skip"
        case ErrorClass.IN_DOUBT:
            return "in_doubt"
        case ErrorClass.RATE_LIMITED:
            return "pause"
        case ErrorClass.RETRYABLE | ErrorClass.UNKNOWN:
            return "retry"
        case _:
            assert_never(failure.kind)


def _delay(outcome: Raised, policy: RetryPolicy, rng: random.Random, turn: int) -> float:
    """What the handler said, else what the provider said, else the task's backoff."""
    if outcome.delay_s is not None:
        return _bounded(outcome.delay_s)
    asked = outcome.failure.retry_after_s
    if asked is None:
        return delay_for(policy.wait, turn, policy.jitter, rng)
    # never earlier than asked, and not all who were told the same at the same moment
    return _bounded(max(_bounded(asked), LEAST_PAUSE_S) * (1.0 + rng.uniform(0.0, policy.jitter)))


def _paused(run: RunFacts, delay_s: float, code: Any, text: str | None, stats: str | None) -> Settlement:
    paid = run.snoozes >= UNPAID_PAUSES
    if paid and (run.at_most_once or run.attempts >= run.max_attempts):
        return _end("fail", code, text, stats)
    act = "retry" if paid else "snooze"
    return Settlement(act=act, delay_s=delay_s, code=_code(code), error=_text(text), stats=stats)


def _end(act: str, code: Any, text: str | None, stats: str | None) -> Settlement:
    return Settlement(act=act, code=_code(code), error=_text(text), stats=stats)


def _bounded(value: Any) -> float:
    """0 to 365 days; what is no number is the bound of neither and waits for the least pause."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return LEAST_PAUSE_S
    return LEAST_PAUSE_S if math.isnan(number) else min(max(number, 0.0), LONGEST_BACKOFF_S)


def _code(code: Any) -> str | None:
    return storable(code, CODE_CHARS) or None if code is not None else None


def _text(text: Any) -> str | None:
    return storable(text, ERROR_BYTES) if text else None
