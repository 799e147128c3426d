"""The worlds and the moves: what lies in the tables, and what sessions do there.

Job a has id 1, job b id 2. Fences are those of a's first run, by worker 1; whoever claims here is worker 2.
"""

from __future__ import annotations

from interleave.stepper import Move

ENQUEUE_A = "select answer from fencepost.enqueue('t', '{}', 'a', p_queue => 'q', p_unique_key => 'K')"
ENQUEUE_B = "select answer from fencepost.enqueue('t', '{}', 'b', p_queue => 'q', p_unique_key => 'K')"
CLAIM_1 = "select id from fencepost.claim_v1(1, '{q}', '{1}')"
STALE = "update fencepost.running set claimed_at = now() - interval '1 h', heartbeat_at = null"


def enqueue_with_gate(name: str) -> str:
    return f"select answer from fencepost.enqueue('t', '{{}}', '{name}', p_queue => 'q', p_concurrency_key => 'g')"


WORLDS: dict[str, list[str]] = {
    "empty": [],
    "queued": [ENQUEUE_A],
    "running": [ENQUEUE_A, CLAIM_1],
    "stale": [ENQUEUE_A, CLAIM_1, STALE],
    "cancelling": [ENQUEUE_A, CLAIM_1, "select fencepost.cancel_v1('a', 'test')", STALE],
    "failed": [
        ENQUEUE_A, CLAIM_1, "select answer from fencepost.settle_v1(1, '{1}', '{1}', '{fail}')",
        "update fencepost.outcome set purge_at = now() - interval '1 s'",
    ],
    "delayed": [
        ENQUEUE_A, CLAIM_1, "select answer from fencepost.settle_v1(1, '{1}', '{1}', '{retry}')",
        "update fencepost.delayed set run_at = now() - interval '1 s'",
    ],
    "gated": [
        "select fencepost.gate_limit_v1('g', 1)", enqueue_with_gate("a"), CLAIM_1, enqueue_with_gate("b"),
        "select id from fencepost.claim_v1(3, '{q}', '{1}')",
    ],
    "led": ["select leads from fencepost.lead_v1('leader', 1, 0, now(), 1, now())"],
}  # fmt: skip

_SETTLE = "select answer from fencepost.settle_v1(1, '{{1}}', '{{1}}', '{{{}}}')"

ALL: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    # name: query, marked lines on its way, worlds in which it means something
    "enqueue a": (ENQUEUE_A, ("enqueue.looked", "revive.outcome_taken"), ("empty", "queued", "stale", "failed")),
    "enqueue b": (ENQUEUE_B, ("enqueue.looked",), ("empty", "running", "stale", "failed", "delayed")),
    "claim": (
        "select id, run_count from fencepost.claim_v1(2, '{q}', '{10}') where id is not null",
        ("claim.chosen", "sift.gates_locked"), ("queued", "delayed", "gated"),
    ),
    "beat": ("select answer from fencepost.heartbeat_v1('{1}', '{1}', '{1}')", ("beat.written",), ("running", "stale")),
    "start": ("select answer from fencepost.start_v1(1, '{1}', '{1}')", (), ("running", "stale")),
    "checkpoint": ("select fencepost.checkpoint_v1(1, 1, 1, '{}')", (), ("running", "stale")),
    "succeed": (_SETTLE.format("succeed"), ("settle.moved", "slots.given"), ("running", "stale", "gated", "cancelling")),
    "retry": (_SETTLE.format("retry"), ("settle.moved",), ("running", "stale", "cancelling")),
    "rescue": ("select id, answer, state from fencepost.rescue_v1(10)", ("rescue.chosen",), ("stale", "cancelling")),
    "cancel": ("select fencepost.cancel_v1('a', 'ann')", ("cancel.not_queued", "end.moved"), ("queued", "stale", "delayed")),
    "resubmit": ("select answer from fencepost.resubmit_v1('a', 'ann')", ("resubmit.looked", "revive.outcome_taken"),
                 ("failed", "delayed")),
    "promote": ("select fencepost.promote_v1(10)", (), ("delayed", "gated")),
    "purge": ("select fencepost.purge_v1(10)", (), ("failed",)),
    "pause": ("select fencepost.queue_pause_v1('q', true, 'ann')", (), ("queued", "gated")),
    "discard": ("select fencepost.discard_v1('a', 'ann')", (), ("failed",)),
    "limit": ("select fencepost.gate_limit_v1('g', 2)", (), ("gated",)),
    "lead": ("select leads, epoch from fencepost.lead_v1('leader', 2, 30, now(), 1, now())", (), ("led", "stale")),
    "lead too": ("select leads, epoch from fencepost.lead_v1('leader', 3, 30, now(), 1, now())", (), ("led",)),
}  # fmt: skip

LEVELS = ("read committed", "repeatable read", "serializable")
CALLERS = ("enqueue a", "enqueue b", "cancel", "resubmit")
"""Moves that a user's program may make inside a transaction of its own, at any isolation level."""


def ways(name: str) -> list[Move]:
    """The move as a whole, stopped at each of its marked lines, and inside a caller's transaction."""
    query, stops, _ = ALL[name]
    found = [Move(name, query), *(Move(name, query, stop=stop) for stop in stops)]
    if name in CALLERS:
        found += [Move(name, query, level=level) for level in LEVELS]
    return found


def worlds_of(*names: str) -> list[str]:
    """Worlds in which at least two of the moves mean something, or all of one kind."""
    meant = [set(ALL[name][2]) for name in names]
    shared = [world for world in WORLDS if sum(world in some for some in meant) >= 2]  # noqa: PLR2004
    return shared or [world for world in WORLDS if any(world in some for some in meant)][:2]
