"""The design, checked by exhaustion: three small models in Promela, and each of their broken variants must fail.

A model that nothing can break says nothing. What is checked is the idea; that the code has it, the tests on a real server
show. Spin is Debian's package ``spin``; without it, or without a C compiler, these tests are skipped with that word, and
``FENCEPOST_TEST_NEEDS=spin`` makes its absence an error (CI).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
MOST_STATES_DEEP = "200000"


class Case(NamedTuple):
    """One property of one model; with ``broken`` it must fail."""

    model: str
    property: str
    broken: str = ""
    lives: bool = False
    """It says that something happens at last: under weak fairness, and the safety assertions are not its business."""


RIGHT = [
    Case("lease", "safe"),
    Case("lease", "finishes", lives=True),
    Case("keys", "one"),
    Case("keys", "owned"),
    Case("leader", "once"),
    Case("leader", "all_of_them", lives=True),
]

BROKEN = [
    Case("lease", "safe", "NO_RUN"),
    Case("lease", "safe", "NO_TOKEN"),
    Case("lease", "safe", "SHARED"),
    Case("lease", "safe", "NO_RECHECK"),
    Case("lease", "finishes", "NOT_COUNTED", lives=True),
    Case("lease", "finishes", "ENDLESS", lives=True),
    Case("keys", "one", "LOOK_ONLY"),
    Case("keys", "one", "ANY_OUTCOME"),
    Case("keys", "one", "FREED_EARLY"),
    Case("keys", "owned", "KEPT"),
    Case("keys", "one", "NO_WINDOW"),
    Case("leader", "once", "TRUSTING"),
    Case("leader", "all_of_them", "APART", lives=True),
    Case("leader", "all_of_them", "FROM_NOW", lives=True),
    Case("leader", "all_of_them", "FOR_EVER", lives=True),
]


@pytest.fixture
def spin() -> str:
    found = shutil.which("spin")
    if found is None or shutil.which("gcc") is None:
        assert "spin" not in os.environ.get("FENCEPOST_TEST_NEEDS", "").split(","), "FENCEPOST_TEST_NEEDS names spin"
        pytest.skip("spin and gcc are needed (Debian: apt-get install spin gcc)")
    return found


class Verdict(NamedTuple):
    errors: int
    why: str
    states: int


def checked(spin: str, case: Case, folder: Path) -> Verdict:
    """Generate the checker of this variant, compile it, and let it look at every state."""
    shutil.copy(HERE / f"{case.model}.pml", folder / "model.pml")
    variant = [f"-D{case.broken}"] if case.broken else []
    _run([spin, "-a", *variant, "model.pml"], folder)
    _run(["gcc", "-O0", "-w", "-DNFAIR=3", "-o", "pan", "pan.c"], folder)
    fair = ["-a", "-f", "-A"] if case.lives else ["-a"]
    said = _run(["./pan", *fair, "-m" + MOST_STATES_DEEP, "-N", case.property], folder)
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    assert errors is not None, said
    assert states is not None, said
    assert "max search depth too small" not in said or case.broken, said
    why = re.search(r"pan:1: (.+) \(at depth", said)
    return Verdict(int(errors[1]), why[1] if why else "", int(states[1]))


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=80
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}"
    assert "Error:" not in done.stdout, f"{command}: {done.stdout[-2000:]}"
    return done.stdout


def name(case: Case) -> str:
    return "-".join(filter(None, (case.model, case.property, case.broken)))


@pytest.mark.spec("L1", "L2", "C3", "Q3", "Q4", "S1", "S3", "D4")
@pytest.mark.parametrize("case", RIGHT, ids=name)
def test_the_design_keeps_its_word_in_every_state(spin: str, case: Case, tmp_path: Path) -> None:
    found = checked(spin, case, tmp_path)

    assert (found.errors, found.why) == (0, "")
    assert found.states > 1000, "a model that stands still keeps every word"


@pytest.mark.spec("D4")
@pytest.mark.parametrize("case", BROKEN, ids=name)
def test_a_broken_design_is_noticed(spin: str, case: Case, tmp_path: Path) -> None:
    found = checked(spin, case, tmp_path)

    assert found.errors > 0
    assert found.why.startswith("acceptance cycle" if case.lives else "assertion violated")


@pytest.mark.parametrize("model", ["lease", "keys", "leader"])
def test_every_variant_that_a_model_names_is_tried(model: str) -> None:
    text = (HERE / f"{model}.pml").read_text()

    switches = set(re.findall(r"^#ifn?def (\w+)", text, re.MULTILINE))
    told = set(re.findall(r"^ \*   ([A-Z_]+) ", text, re.MULTILINE))

    assert switches == told == {case.broken for case in BROKEN if case.model == model}
