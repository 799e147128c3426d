"""A run that ended, and what is proposed for it: for tests of the decision."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from fencepost.domain.decide import decide
from fencepost.domain.failure import ErrorClass, Failure
from fencepost.domain.outcome import Outcome, Raised, Settlement
from fencepost.domain.policy import RetryPolicy


@dataclass(frozen=True, kw_only=True)
class Run:
    """What `decide` asks of a run."""

    attempts: int
    max_attempts: int
    snoozes: int
    at_most_once: bool
    created_at: datetime


NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FIRST = Run(attempts=1, max_attempts=5, snoozes=0, at_most_once=False, created_at=NOW)
EVEN = RetryPolicy(jitter=0)


def failure(kind: ErrorClass, code: str = "X", text: str = "boom", asked: float | None = None) -> Raised:
    return Raised(Failure(code=code, kind=kind, text=text, retry_after_s=asked))


def proposed(
    outcome: Outcome, run: Run = FIRST, policy: RetryPolicy = EVEN, now: datetime = NOW, seed: int = 1
) -> Settlement:
    return decide(run, outcome, policy, now, random.Random(seed))
