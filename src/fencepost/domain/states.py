"""The seven states and the table of edges; the diagram in the docs and the test-time guard come from it (SPEC L1, L2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """A job is in exactly one of these."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    IN_DOUBT = "in_doubt"


ACTIVE = frozenset({State.QUEUED, State.RUNNING})
TERMINAL = frozenset(State) - ACTIVE
LABELS = ("lost", "recovered", "retrying", "scheduled", "parked", "paused")
"""What is shown instead of queued or running, in this precedence."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One way from state to state; ``before`` None: the job did not exist, ``after`` None: it is gone."""

    name: str
    before: State | None
    after: State | None
    who: str
    when: str


_Q, _R = State.QUEUED, State.RUNNING
EDGES: tuple[Edge, ...] = (
    Edge("enqueue", None, _Q, "caller", "a new job_id and a free unique key"),
    Edge("promote", _Q, _Q, "claim, leader", "run_at has come"),
    Edge("park", _Q, _Q, "claim", "the key's limit is used up"),
    Edge("wake", _Q, _Q, "settle, leader", "the limit has room, or a worker knows the task"),
    Edge("claim", _Q, _R, "worker", "due, not paused; run_count and attempts rise"),
    Edge("succeed", _R, State.SUCCEEDED, "worker", "the handler returned"),
    Edge("retry", _R, _Q, "worker", "failed, attempts left; the attempt is spent"),
    Edge("snooze", _R, _Q, "worker", "asked to run later; the attempt is given back, up to a bound"),
    Edge("release", _R, _Q, "worker, supervisor", "shutdown or never started; the attempt is given back"),
    Edge("park_unknown", _R, _Q, "worker", "no such task or version here; the attempt is given back"),
    Edge("fail", _R, State.FAILED, "worker", "permanent, exhausted, unstorable, past its deadline"),
    Edge("skip", _R, State.SKIPPED, "worker", "the handler says the job lost its meaning"),
    Edge("doubt", _R, State.IN_DOUBT, "worker", "the effect may have happened"),
    Edge("stop", _R, State.CANCELLED, "worker", "a cancel request was heard"),
    Edge("rescue", _R, _Q, "reaper, supervisor", "the lease is stale or its process is gone; the attempt is spent"),
    Edge("rescue_fail", _R, State.FAILED, "reaper, supervisor", "STALE or CRASH_LOOP: no attempt or crash is left"),
    Edge("rescue_doubt", _R, State.IN_DOUBT, "reaper, supervisor", "the body must not run twice and may have run"),
    Edge("rescue_cancel", _R, State.CANCELLED, "reaper, supervisor", "a cancel was requested"),
    Edge("cancel", _Q, State.CANCELLED, "operator", "at once"),
    Edge("expire", _Q, State.SKIPPED, "claim, leader", "start_by has passed"),
    Edge("deadline", _Q, State.FAILED, "claim, leader", "finish_by has passed"),
    Edge("resubmit", State.FAILED, _Q, "caller, operator", "the same job_id again"),
    Edge("resubmit", State.CANCELLED, _Q, "caller, operator", "the same job_id again"),
    Edge("resubmit", State.SKIPPED, _Q, "caller, operator", "the same job_id again"),
    Edge("resubmit", State.SUCCEEDED, _Q, "caller, operator", "after the dedup window, or by an operator"),
    Edge("resolve", State.IN_DOUBT, State.SUCCEEDED, "reconciler, operator", "it happened"),
    Edge("resolve", State.IN_DOUBT, _Q, "reconciler, operator", "it did not happen"),
    Edge("resolve", State.IN_DOUBT, State.FAILED, "operator", "a verdict"),
    Edge("resolve", State.IN_DOUBT, State.CANCELLED, "operator", "a verdict"),
    Edge("purge", State.SUCCEEDED, None, "leader", "retention and dedup window are over"),
    Edge("purge", State.FAILED, None, "leader", "retention is over"),
    Edge("purge", State.CANCELLED, None, "leader", "retention is over"),
    Edge("purge", State.SKIPPED, None, "leader", "retention is over"),
)


def allowed(before: State | None, after: State | None) -> bool:
    """Whether some edge leads from ``before`` to ``after``."""
    return any(edge.before == before and edge.after == after for edge in EDGES)


def diagram() -> str:
    """The table as a mermaid state diagram."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for edge in EDGES:
        ends = (edge.before or "[*]", edge.after or "[*]")
        names = pairs.setdefault((str(ends[0]), str(ends[1])), [])
        if edge.name not in names:
            names.append(edge.name)
    lines = [f"    {before} --> {after}: {', '.join(names)}" for (before, after), names in pairs.items()]
    return "stateDiagram-v2\n" + "\n".join(lines) + "\n"
