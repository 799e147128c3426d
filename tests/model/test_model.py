"""The storage's functions and a small model of them, in random histories at a time that only the machine moves.

A difference is shortened to the fewest moves that show it, and printed as calls. ``FENCEPOST_MODEL_SEED`` plays others.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from model.broken import MUTANTS, Mutant
from model.machine import Machine
from model.storage import Clocked, Storage, clocked, install
from servers import Server
from sql.hands import write_function

GATE = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # it judges the machine's speed by the first few histories
)
NIGHTLY = settings(GATE, max_examples=3000, stateful_step_count=100)
UNSHORTENED = settings(GATE, phases=[Phase.generate], report_multiple_bugs=False)
SEED = os.environ.get("FENCEPOST_MODEL_SEED")

HEARD = {
    "enqueue: created": 300, "enqueue: exists": 100, "enqueue: resubmitted": 20, "enqueue: deduplicated": 5,
    "enqueue: skipped": 20, "enqueue: in_doubt": 5, "claim: run": 200, "claim: aside": 10, "beat: ok": 30, "beat: lost": 30,
    "beat: cancel": 1, "start: ok": 20, "checkpoint: True": 20, "settle: accepted, queued": 30,
    "settle: accepted, succeeded": 20, "settle: accepted, failed": 20, "settle: accepted, in_doubt": 5,
    "settle: accepted, cancelled": 3, "settle: already, queued": 3, "settle: lost, None": 20, "rescue: accepted, queued": 10,
    "rescue: accepted, failed": 3, "rescue: accepted, in_doubt": 1, "rescue_process: accepted, queued": 5,
    "cancel: cancelled": 20, "cancel: requested": 5, "resubmit: resubmitted": 10, "resolve: resolved": 5,
    "discard: discarded": 3, "pause: paused": 10, "lead: True": 20, "lead: False": 10, "resign: True": 3,
}  # fmt: skip
"""What must have been answered how often in the ordinary run: a history in which nothing happens shows nothing."""


class Played(NamedTuple):
    rules: int
    heard: Counter[str]


@pytest.fixture(scope="module")
def testbuild(server: Server) -> str:
    return install(server)


@pytest.fixture
def play(testbuild: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[settings, int], Played]]:
    """Plays histories. Hypothesis reports what goes wrong as it does for any test."""
    with psycopg.connect(testbuild) as conn:

        def play(profile: settings, seed: int) -> Played:
            class Here(Machine):
                storage, rules_played, heard = Storage(conn), 0, Counter[str]()

            monkeypatch.setattr("hypothesis.core.global_force_seed", seed)
            print(f"FENCEPOST_MODEL_SEED={seed}")
            run_state_machine_as_test(Here, settings=profile)
            return Played(Here.rules_played, Here.heard)

        yield play


SPEC = pytest.mark.spec(
    "L1", "L2", "L3", "L4", "L5", "L7", "Q3", "Q4", "Q5", "Q6", "C2", "C3", "C6", "C7", "C9", "C10", "R4", "R5", "R6", "W8", "W12",
)  # fmt: skip


@SPEC
@pytest.mark.timeout(900)
def test_the_storage_does_what_its_model_does(
    play: Callable[[settings, int], Played], record_property: Callable[[str, Any], None]
) -> None:
    played = play(GATE, int(SEED or 0))

    record_property("rules", played.rules)
    print(f"{played.rules} rules; {played.heard}")
    assert played.rules >= 7000
    assert {word: played.heard[word] for word, least in HEARD.items() if played.heard[word] < least} == {}


@SPEC
@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_the_storage_does_what_its_model_does_in_long_histories(
    play: Callable[[settings, int], Played], record_property: Callable[[str, Any], None]
) -> None:
    played = play(NIGHTLY, int(SEED) if SEED else random.SystemRandom().getrandbits(32))

    record_property("rules", played.rules)
    print(f"{played.rules} rules; {played.heard}")
    assert played.rules >= 200_000


@pytest.mark.spec("D4")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_function_is_noticed(testbuild: str, play: Callable[[settings, int], Played], mutant: Mutant) -> None:
    originals = {file.name: file.text for file in Clocked().functions()}
    right = originals[mutant.function]
    assert clocked(mutant.right) in right, "the mutant no longer fits the function: write it anew"

    with psycopg.connect(testbuild, autocommit=True) as conn:
        write_function(conn, right.replace(clocked(mutant.right), clocked(mutant.wrong)), originals)
        try:
            with pytest.raises((AssertionError, psycopg.Error)):
                play(UNSHORTENED, 0)
        finally:
            write_function(conn, right, originals)
