"""The closed list of ways a run ends, and what the worker proposes for it (DESIGN: one road out of ``running``)."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.domain.failure import Failure


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned. ``result`` is JSON text or None."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised, or its time ran out: classified, redacted, storable."""

    failure: Failure
    delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to run later, or a provider's long pause; unpaid up to a bound."""

    delay_s: float
    code: str = "SNOOZED"
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """The job lost its meaning."""

    code: str = "SKIPPED"
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Cancelled, after the handler's clean-up."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class Doubtful:
    """The effect may have happened."""

    code: str = "IN_DOUBT"
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """Handed back: a shutdown, or the body never started. Unspent unless the body must not run twice."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease ended under the body (local deadline): judged as the reaper would judge it."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """This process knows no such task or version: parked, visible, unspent (SPEC Q8)."""

    text: str | None = None


Outcome = Done | Raised | Snoozed | Skipped | Stopped | Doubtful | Released | Lost | Unknown


ENDS = frozenset({"succeed", "fail", "skip", "doubt", "cancel"})
"""Acts that end the job, whatever its row says."""

RETURNS = frozenset({"retry", "snooze", "release", "park", "lost"})
"""Acts on the way back to the queue: a cancel request, a deadline or the policy on the row may end the job all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What is sent to ``settle``: the proposed act and its storable details. The statement disposes."""

    act: str  # succeed fail skip doubt cancel | retry snooze release park lost
    delay_s: float = 0.0
    code: str | None = None
    error: str | None = None
    result: str | None = None
    stats: str | None = None
