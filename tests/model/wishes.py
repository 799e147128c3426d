"""What the machine may ask for: few names and short times, so that jobs meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from model.things import DAY, ENDS, UNSTORABLE, Input, Policy

T = TypeVar("T")

JOB_IDS, QUEUES, TENANTS, CKEYS, TOKENS = "abcdefghijkl", ("default", "q", "r"), ("x", "y", "z"), ("g", "h"), (1, 2, 3)
FORESEEN = {
    "plain": Policy(queue="q", dedup_s=600, keep_ok_s=300, keep_bad_s=1200),
    "once": Policy(queue="q", at_most_once=True, ttl_s=20, keep_ok_s=2 * DAY),
    "frail": Policy(queue="r", priority=3, max_attempts=2, max_crashes=2, ttl_s=10, dedup_s=60, keep_ok_s=3600),
    "fails": Policy(queue="q", version=2, on_lost="fail", max_attempts=3),
    "doubts": Policy(queue="r", on_lost="in_doubt", keep_bad_s=600),
    "single": Policy(queue="q", max_attempts=1, ttl_s=15),
}
"""What is published at the beginning; the task ``unknown`` never is, until the machine does it."""
TASKS = (*FORESEEN, "unknown")
ALL_TASKS = dict.fromkeys(TASKS, 3)
ROADS = ("retry", "snooze", "release", "park", "lost", "timeout")


def seldom(values: Sequence[T], none: int = 3) -> st.SearchStrategy[T | None]:
    """None in most cases."""
    return st.sampled_from([None] * none * len(values) + list(values))


def _wish(words: dict[str, Any]) -> Input:
    """Deadlines after the start, as the public functions ask for; all times relative to now."""
    begin = max(words["run_at"] or 0, 0) if words["run_at"] is not None else words["delay_s"] or 0
    if words["start_by"] is not None:
        begin = words["start_by"] = words["start_by"] + begin
    if words["finish_by"] is not None:
        words["finish_by"] += begin
    if words["run_at"] is not None:
        words["delay_s"] = None
    return Input(**words)


wishes = st.fixed_dictionaries({
    "job_id": st.sampled_from(JOB_IDS),
    "task": st.sampled_from(TASKS),
    "payload": st.sampled_from((0, 0, 0, 1)),
    "queue": seldom(QUEUES, 1),
    "priority": seldom((-5, 5), 1),
    "run_at": seldom((-100, -3, 1, 30, 4000)),
    "delay_s": seldom((0, 2, 60)),
    "key": seldom(("K", "L"), 2),
    "ckey": seldom(CKEYS, 2),
    "tenant": seldom(TENANTS, 1),
    "start_by": seldom((0, 1, 50), 6),
    "finish_by": seldom((1, 40, 3000), 6),
    "max_attempts": seldom((1, 2)),
    "dedup_s": seldom((0, 50, 5000)),
    "version": seldom((1, 3)),
}).map(_wish)  # fmt: skip

kinds = st.sampled_from(("live",) * 5 + ("zombie",) * 2 + ("old",) * 2 + ("forged",))
picks = st.tuples(kinds, st.integers(0, 11))
"""A fence: of a run that goes on, of one whose job runs again, of any that ever was, or one that nobody was given."""

endings = st.tuples(
    picks,
    st.sampled_from((*ENDS, *ROADS, "succeed", "fail", "retry", "lost", "park")),
    st.sampled_from((0, 0, 5, 100, 100_000)),
    seldom(("E1", "E2"), 1),
    seldom(("one", "two"), 1),
    seldom(("7", "8", UNSTORABLE), 1),
)

lanes = st.tuples(
    st.lists(st.sampled_from(QUEUES), min_size=2, max_size=3, unique=True),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.lists(st.sampled_from(("", "x", "y")), min_size=3, max_size=3),
).map(lambda lane: list(zip(*lane, strict=False)))

policies = st.builds(
    Policy,
    version=st.integers(1, 3),
    queue=st.sampled_from(QUEUES),
    priority=st.sampled_from((0, 2)),
    max_attempts=st.integers(1, 4),
    max_crashes=st.integers(1, 3),
    on_lost=st.sampled_from(("requeue", "requeue", "fail", "in_doubt")),
    at_most_once=st.sampled_from((False, False, True)),
    ttl_s=seldom((5, 40), 1),
    dedup_s=st.sampled_from((0, 100, DAY)),
    keep_ok_s=st.sampled_from((0, 50, DAY)),
    keep_bad_s=st.sampled_from((0, 70, DAY)),
)

spans = st.one_of(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 60).map(lambda n: n * 60),
    st.integers(1, 100).map(lambda n: n * DAY),
    st.integers(-3600, -1),
)
"""How time moves: seconds, minutes, days; and back by up to an hour."""
