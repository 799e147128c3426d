"""The storage's functions against a model of them, in random histories at a time of the test's own.

SPEC L1 to L5, L7, Q3 to Q6, C2, C3, C6, C7, C9, R4 to R6, W8, W12, D4. A difference is shrunk to the shortest history that
shows it, and printed as the calls that lead there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from model.machine import Machine
from model.storage import Clocked, Storage, install
from servers import Server
from sql.hands import write_function

GATE = settings(
    max_examples=int(os.environ.get("N","200")),
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
NIGHTLY = settings(GATE, max_examples=5000, stateful_step_count=100)
SEED = int(os.environ.get("FENCEPOST_MODEL_SEED", "0"))
"""Of the gate: every run plays the same histories. The nightly run takes a new one and prints it."""


@pytest.fixture(scope="module")
def clocked(server: Server) -> str:
    return install(server)


@pytest.fixture
def play(clocked: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Plays histories; gives how many rules were played."""
    with psycopg.connect(clocked) as conn:

        def play(profile: settings, seed: int) -> int:
            class Played(Machine):
                storage, rules_played, heard = Storage(conn), 0, Counter[str]()

            monkeypatch.setattr("hypothesis.core.global_force_seed", seed)
            run_state_machine_as_test(Played, settings=profile)
            print(Played.heard)
            return Played.rules_played

        yield play


@pytest.mark.timeout(600)
@pytest.mark.spec("L1", "L2", "L3", "L4", "L5", "L7", "Q3", "Q4", "Q5", "Q6", "C2", "C3", "C6", "C7", "C9", "R4", "R5", "R6", "W8", "W12")
def test_the_storage_does_what_its_model_does(play: Callable[..., int], record_property: Callable[[str, Any], None]) -> None:
    rules = play(GATE, SEED)

    record_property("rules", rules)
    print(f"{rules} rules")
    assert rules >= 5000
