"""The seven states, the table of edges and the labels (SPEC L1, L2).

Nothing else changes a state. The diagram in the documentation and the guard of the tests are made from this table.
"""

from __future__ import annotations

from collections.abc import Collection
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


class Label(StrEnum):
    """What is shown instead of ``running`` (the first) or ``queued`` (the others); the first that fits wins."""

    LOST = "lost"
    RECOVERED = "recovered"
    RETRYING = "retrying"
    SCHEDULED = "scheduled"
    PARKED = "parked"
    PAUSED = "paused"


ACTIVE = frozenset({State.QUEUED, State.RUNNING})
TERMINAL = frozenset(State) - ACTIVE
LABELS = tuple(str(label) for label in Label)
"""In order of precedence."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One way from state to state; ``before`` None: the job did not exist, ``after`` None: it is gone.

    ``who`` may go it, ``when``, and what it ``sets`` besides the state.
    """

    name: str
    before: State | None
    after: State | None
    who: str
    when: str
    sets: str = ""


_Q, _R = State.QUEUED, State.RUNNING
_OK, _BAD, _OFF = State.SUCCEEDED, State.FAILED, State.CANCELLED
_SKIP, _DOUBT = State.SKIPPED, State.IN_DOUBT

_GIVEN_BACK = "attempts goes back by one"
_ENDED = "finished_at, purge_at; the unique key and the key's slot are free"
_ANEW = "attempts, crashes, snoozes 0; run_count goes on; the last run goes into the history"

EDGES: tuple[Edge, ...] = (
    Edge("enqueue", None, _Q, "caller", "a new job_id and a free unique key", "all it was given; run_count 0"),
    Edge("promote", _Q, _Q, "claim, leader", "run_at has come"),
    Edge("park", _Q, _Q, "claim", "its concurrency key's limit is used up", "the reason"),
    Edge("wake", _Q, _Q, "settle, leader", "the limit has room, or a worker knows the task"),
    Edge("claim", _Q, _R, "worker", "due, not paused", "run_count + 1, attempts + 1, the lease token, ttl and policy"),
    Edge("succeed", _R, _OK, "worker", "the handler returned, and its result can be stored", f"the result; {_ENDED}"),
    Edge("retry", _R, _Q, "worker", "it failed, attempts and time budget are left", "the error, run_at by the policy"),
    Edge("snooze", _R, _Q, "worker", "it asked to run later, or a provider did", f"{_GIVEN_BACK}, snoozes + 1, run_at"),
    Edge("release", _R, _Q, "worker, supervisor", "a shutdown, or its body never started", _GIVEN_BACK),
    Edge("park_unknown", _R, _Q, "worker", "it does not know the task or version", f"{_GIVEN_BACK}; the reason"),
    Edge("fail", _R, _BAD, "worker", "permanent, exhausted, unstorable, past its deadline", f"the error; {_ENDED}"),
    Edge("skip", _R, _SKIP, "worker", "the handler says that the job lost its meaning", f"the reason; {_ENDED}"),
    Edge("doubt", _R, _DOUBT, "worker", "the effect may have happened", "the reason; the unique key stays held"),
    Edge("stop", _R, _OFF, "worker", "a cancel was requested", _ENDED),
    Edge("rescue", _R, _Q, "reaper, supervisor", "the lease is stale or its process is gone", "crashes + 1; run stale"),
    Edge(
        "rescue_fail", _R, _BAD, "reaper, supervisor", "no attempt or crash is left", "STALE or CRASH_LOOP; run stale"
    ),
    Edge("rescue_doubt", _R, _DOUBT, "reaper, supervisor", "it must not run twice and may have run", "run stale"),
    Edge("rescue_stop", _R, _OFF, "reaper, supervisor", "a cancel was requested", "run stale"),
    Edge("cancel", _Q, _OFF, "operator", "at once", f"audit; {_ENDED}"),
    Edge("expire", _Q, _SKIP, "claim, leader", "start_by has passed", f"EXPIRED; {_ENDED}"),
    Edge("deadline", _Q, _BAD, "claim, leader", "finish_by has passed", f"DEADLINE; {_ENDED}"),
    Edge("resubmit", _BAD, _Q, "caller, operator", "its job_id again", _ANEW),
    Edge("resubmit", _OFF, _Q, "caller, operator", "its job_id again", _ANEW),
    Edge("resubmit", _SKIP, _Q, "caller, operator", "its job_id again", _ANEW),
    Edge("resubmit", _OK, _Q, "caller, operator", "after the dedup window", f"{_ANEW}; generation + 1 by a caller"),
    Edge("resolve", _DOUBT, _OK, "reconciler, operator", "it happened", f"audit, the result; {_ENDED}"),
    Edge("resolve", _DOUBT, _Q, "reconciler, operator", "it did not happen", f"audit; {_ANEW}"),
    Edge("resolve", _DOUBT, _BAD, "operator", "a verdict", f"audit; {_ENDED}"),
    Edge("resolve", _DOUBT, _OFF, "operator", "a verdict", f"audit; {_ENDED}"),
    *(
        Edge("discard", ended, None, "operator", "it has ended and is not in doubt", "audit")
        for ended in (_OK, _BAD, _OFF, _SKIP)
    ),
    *(
        Edge("purge", ended, None, "leader", "retention and dedup window are over", "daily counts")
        for ended in (_OK, _BAD, _OFF, _SKIP)
    ),
)


def allowed(before: State | None, after: State | None) -> bool:
    """Whether some edge leads from ``before`` to ``after``."""
    return any(edge.before == before and edge.after == after for edge in EDGES)


def diagram(edges: Collection[Edge] = EDGES) -> str:
    """The table as a mermaid state diagram; edges between the same states share a line."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        names = pairs.setdefault((edge.before or "[*]", edge.after or "[*]"), [])
        if edge.name not in names:
            names.append(edge.name)
    lines = [f"    {before} --> {after}: {', '.join(names)}" for (before, after), names in pairs.items()]
    return "stateDiagram-v2\n" + "\n".join(lines) + "\n"


def table(edges: Collection[Edge] = EDGES) -> str:
    """The table as Markdown."""
    head = "| edge | from | to | who | when | sets |\n|---|---|---|---|---|---|\n"
    rows = (
        f"| {e.name} | {e.before or '–'} | {e.after or '–'} | {e.who} | {e.when} | {e.sets} |"  # noqa: RUF001
        for e in edges
    )
    return head + "\n".join(rows) + "\n"
