"""Any moves in any order, at any time: a history, step by step, as Hypothesis chooses and shortens it."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from model import wishes as w
from model.moves import Moves
from model.storage import Storage

_ANY = st.integers(0, 30)
_TOKEN, _QUEUE, _CKEY, _TASK = map(st.sampled_from, (w.TOKENS, w.QUEUES, w.CKEYS, w.TASKS))
_ROLE, _VERDICT = map(
    st.sampled_from, (("leader", "leader", "leader", "other"), ("succeeded", "failed", "cancelled", "queued"))
)
_PICKS = st.lists(w.picks, min_size=1, max_size=3)
_BATCH = st.lists(w.wishes, min_size=1, max_size=5)
_ENDINGS = st.lists(w.endings, min_size=1, max_size=4)
_SOMETIMES = st.sampled_from((False, False, True))
_MOSTLY = st.sampled_from((True, True, False))

MOVES: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "time_moves": (4, {"span": w.spans}),
    "time_moves_to_where_something_is_due": (5, {"n": st.integers(0, 30), "off": st.integers(-1, 1)}),
    "enqueue": (7, {
        "batch": _BATCH, "ckey": w.seldom(w.CKEYS, 2), "on_terminal": st.sampled_from(("resubmit", "resubmit", "exists")),
    }),
    "enqueue_from_sql": (4, {"one": w.wishes, "after_window_s": w.seldom((-1, 0), 1)}),
    "claim": (14, {
        "token": _TOKEN, "lanes": w.lanes, "ttl_s": st.sampled_from((30, 30, 7)), "due": st.booleans(), "one": st.integers(0, 5),
    }),
    "beat": (4, {
        "picks": _PICKS, "started": st.booleans(), "progress": w.seldom((1, 2), 1), "others": st.sets(_TOKEN, max_size=2),
    }),
    "start": (2, {"picks": _PICKS}),
    "checkpoint": (2, {"pick": w.picks, "data": st.integers(1, 3)}),
    "settle": (16, {"endings": _ENDINGS, "defer": _SOMETIMES}),
    "rescue": (5, {
        "limit": st.sampled_from((1, 2, 100)), "grace_s": st.sampled_from((0, 0, 0, 10)),
        "late_s": st.sampled_from((None, 0, 1, 1, 30)), "by_claim": st.booleans(),
    }),
    "rescue_process": (2, {
        "token": _TOKEN, "ids": st.lists(st.integers(0, 11), max_size=4),
        "kinds": st.lists(st.integers(0, 2), min_size=4, max_size=4),
    }),
    "cancel": (3, {"n": _ANY}),
    "resubmit": (3, {"n": _ANY}),
    "resolve": (2, {"n": _ANY, "verdict": _VERDICT, "result": w.seldom((9,), 1)}),
    "discard": (1, {"n": _ANY}),
    "pause": (1, {"queue": _QUEUE, "paused": _SOMETIMES}),
    "make_fair": (3, {"queue": _QUEUE, "turn": _MOSTLY}),
    "limit": (4, {"ckey": _CKEY, "lim": st.sampled_from((0, 1, 2, 3, 3, 3))}),
    "promote": (2, {"limit": st.sampled_from((1, 100, 100))}),
    "expire": (1, {}),
    "purge": (2, {"late_s": w.seldom((-1, 0), 1)}),
    "retention": (1, {"task": _TASK}),
    "sweep_gates": (1, {"limit": st.sampled_from((1, 100))}),
    "recount": (1, {"ckeys": st.lists(_CKEY, min_size=1, unique=True)}),
    "a_worker_comes_or_goes": (3, {
        "token": _TOKEN, "here": _MOSTLY, "tasks": st.just(w.ALL_TASKS) | st.dictionaries(_TASK, st.integers(1, 3)),
    }),
    "publish_a_task": (1, {"task": _TASK, "policy": w.policies}),
    "wake_known": (3, {"silent_s": w.seldom((59, 60, 61, 300), 1)}),
    "lead": (3, {"name": _ROLE, "token": _TOKEN, "lease_s": st.sampled_from((10, 40)), "knows": st.booleans()}),
    "resign": (2, {"name": _ROLE, "token": _TOKEN}),
}  # fmt: skip
"""How often, and with what. One rule for all of them: Hypothesis would choose among rules evenly, and turn off half of them
for a whole history; then most histories never claim a job."""

_NAMES = [name for name, (weight, _) in MOVES.items() for _ in range(weight)]
_MOVE = st.sampled_from(_NAMES).flatmap(lambda name: st.tuples(st.just(name), st.fixed_dictionaries(MOVES[name][1])))


class Machine(RuleBasedStateMachine):
    """One history. A subclass has the storage, and counts what was played and heard."""

    storage: ClassVar[Storage]
    rules_played: ClassVar[int]
    heard: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.moves = Moves(self.storage)

    def teardown(self) -> None:
        self.heard.update(self.moves.heard)
        self.storage.end()

    @initialize()
    def tasks_are_published(self) -> None:
        for task, policy in w.FORESEEN.items():
            self.moves.publish_a_task(task, policy)

    @rule(move=_MOVE)
    def play(self, move: tuple[str, dict[str, Any]]) -> None:
        name, words = move
        type(self).rules_played += 1
        getattr(self.moves, name)(**words)

    @invariant()
    def the_storage_shows_what_the_model_does(self) -> None:
        self.moves.look()
