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
    max_examples=10,
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # it judges the machine's speed by the first few histories
)
NIGHTLY = settings(GATE, stateful_step_count=100)
PARTS, RUNS, NIGHTLY_RUNS = 3, 10, 400
"""Many short runs: after its first ten histories Hypothesis makes five of six by repeating a part of the one before."""
UNSHORTENED = settings(GATE, phases=[Phase.generate], report_multiple_bugs=False)
SEED = os.environ.get("FENCEPOST_MODEL_SEED")

HEARD = {
    "enqueue: created": 100, "enqueue: exists": 50, "enqueue: resubmitted": 10, "enqueue: deduplicated": 1,
    "enqueue: skipped": 2, "enqueue: in_doubt": 2, "claim: run": 100, "claim: aside": 20, "beat: ok": 10, "beat: lost": 20,
    "start: ok": 5, "checkpoint: True": 3, "settle: accepted, queued": 15, "settle: accepted, succeeded": 5,
    "settle: accepted, failed": 10, "settle: accepted, skipped": 2, "settle: accepted, in_doubt": 5,
    "settle: accepted, cancelled": 3, "settle: already, queued": 10, "settle: lost, None": 30, "settle: lost, failed": 1,
    "rescue: accepted, queued": 5, "rescue: accepted, failed": 1, "rescue: accepted, in_doubt": 1,
    "rescue_process: accepted, queued": 1, "cancel: cancelled": 10, "cancel: requested": 2, "resubmit: resubmitted": 10,
    "resolve: resolved": 1, "discard: discarded": 1, "pause: paused": 2, "lead: True": 20, "lead: False": 3, "resign: True": 1,
}  # fmt: skip
"""What must have been answered how often in each part of the ordinary run: a history in which nothing happens shows nothing."""


def seeds(first: int, runs: int) -> range:
    """Or the one that is asked for, alone."""
    first = int(SEED or first)
    return range(first, first + (1 if SEED else runs))


class Played(NamedTuple):
    rules: int
    heard: Counter[str]


@pytest.fixture(scope="module")
def testbuild(server: Server) -> str:
    return install(server)


@pytest.fixture
def play(testbuild: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[settings, range], Played]]:
    """Plays histories, a run for each seed. Hypothesis reports what goes wrong as it does for any test."""
    with psycopg.connect(testbuild) as conn:

        def play(profile: settings, seeds: range) -> Played:
            class Here(Machine):
                storage, rules_played, heard = Storage(conn), 0, Counter[str]()

            for seed in seeds:
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
@pytest.mark.parametrize("part", range(PARTS))
def test_the_storage_does_what_its_model_does(
    play: Callable[[settings, range], Played], record_property: Callable[[str, Any], None], part: int
) -> None:
    played = play(GATE, seeds(part * RUNS, RUNS))

    record_property("rules", played.rules)
    print(f"{played.rules} rules; {played.heard}")
    assert played.rules >= 3000 or SEED
    assert {word: played.heard[word] for word, least in HEARD.items() if played.heard[word] < least} == {} or SEED


@SPEC
@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_the_storage_does_what_its_model_does_in_long_histories(
    play: Callable[[settings, range], Played], record_property: Callable[[str, Any], None]
) -> None:
    played = play(NIGHTLY, seeds(random.SystemRandom().getrandbits(32), NIGHTLY_RUNS))

    record_property("rules", played.rules)
    print(f"{played.rules} rules; {played.heard}")
    assert played.rules >= 200_000 or SEED


@pytest.mark.spec("D4")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_function_is_noticed(
    testbuild: str, play: Callable[[settings, range], Played], mutant: Mutant
) -> None:
    originals = {file.name: file.text for file in Clocked().functions()}
    right = originals[mutant.function]
    assert clocked(mutant.right) in right, "the mutant no longer fits the function: write it anew"

    with psycopg.connect(testbuild, autocommit=True) as conn:
        write_function(conn, right.replace(clocked(mutant.right), clocked(mutant.wrong)), originals)
        try:
            with pytest.raises((AssertionError, psycopg.Error)):
                play(UNSHORTENED, range(PARTS * RUNS))
        finally:
            write_function(conn, right, originals)
