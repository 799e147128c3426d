"""Functions broken in one place each. The machine must notice every one, or its green says nothing (SPEC D4)."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    function: str
    right: str
    wrong: str


FENCE = "AND r.run_count = p.rc AND r.token = p.token"
MUTANTS = [
    Mutant("any run may end the job", "_settle", FENCE, "AND r.token = p.token"),
    Mutant("any process may end the job", "_settle", FENCE, "AND r.run_count = p.rc"),
    Mutant("a checkpoint of anybody is kept", "checkpoint_v1", "AND r.run_count = p_run_count AND r.token = p_token", ""),
    Mutant("a cancel request is dropped", "_settle", "WHEN a.cancel_at IS NOT NULL THEN 'cancelled'", ""),
    Mutant("a hand-back spends an attempt", "_settle", "l.act NOT IN ('release', 'snooze', 'park') AS spent",
           "l.act NOT IN ('snooze', 'park') AS spent"),
    Mutant("the key of a doubt is freed", "_settle", "FILTER (WHERE l.keyed AND l.state <> 'in_doubt')", "FILTER (WHERE l.keyed)"),
    Mutant("the first crash waits", "_settle", "WHEN r.crashes <= 0 THEN 0", "WHEN r.crashes < 0 THEN 0"),
    Mutant("a job comes back with the tenant of an earlier time", "_settle", "v.fair_now", "v.fair_key"),
    Mutant("the reaper ignores beats", "rescue_v1", "coalesce(r.heartbeat_at, r.claimed_at)", "r.claimed_at"),
    Mutant("a lease ends a second early", "rescue_v1", "v_now - (", "v_now + interval '1 s' - ("),
    Mutant("a claim forgets the priority", "claim_v1", "ORDER BY r.fair_key, r.priority DESC, r.run_at, r.id",
           "ORDER BY r.fair_key, r.run_at, r.id"),
    Mutant("retention forgets the window", "claim_v1",
           "greatest(coalesce(t.keep_ok_s, 14 * 86400), coalesce(j.dedup_s, t.dedup_s, 86400))",
           "coalesce(t.keep_ok_s, 14 * 86400)"),
    Mutant("one too many behind a limit", "_sift", "<= g.lim::bigint - g.used", "<= g.lim::bigint - g.used + 1"),
    Mutant("a free slot wakes one", "_wake", "LIMIT greatest(g.lim::bigint - g.used, 0)", "LIMIT 1"),
    Mutant("the window lasts a second longer", "_enqueue_look", "ended.finished_at > v_now", "ended.finished_at >= v_now"),
    Mutant("a success submitted anew keeps its idempotency key", "_enqueue_one", "(v_look.was = 'succeeded')::int", "0"),
    Mutant("an operator's retry keeps the deadlines", "resubmit_v1", "run_at = v_now, start_by = NULL, finish_by = NULL",
           "run_at = v_now"),
    Mutant("too late to finish is too late to start", "_end_queued", "WHEN w.finish_by <= p_now THEN 'failed'",
           "WHEN w.finish_by < p_now THEN 'failed'"),
    Mutant("a purge is a second early", "purge_v1", "o.purge_at <= clock_timestamp()",
           "o.purge_at <= clock_timestamp() + interval '1 s'"),
    Mutant("a worker that was silent for an hour is alive", "wake_known_v1", "clock_timestamp() - interval '60 s'",
           "clock_timestamp() - interval '1 h'"),
    Mutant("a leader's epoch stays", "lead_v1", "epoch := v_row.epoch + v_taken::int;", "epoch := v_row.epoch;"),
]  # fmt: skip
