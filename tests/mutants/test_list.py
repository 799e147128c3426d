"""The list of mutants: none is stale, each names a test that is there, and the documentation has all of them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.killing import Said, node
from mutants.known import ALL
from mutants.mutant import TOP, Copy, Mutant, Stale
from mutants.run import confirmed, stale


@pytest.mark.spec("D4")
def test_no_mutant_is_stale() -> None:
    assert stale(ALL) == []
    assert len(ALL) >= 80


def test_a_stale_mutant_is_noticed() -> None:
    gone = Mutant("gone", "version.py", "nowhere to be found", "", ALL[0].killer)
    twice = Mutant("twice", "sql/functions/_settle.sql", "RETURNING", "", ALL[0].killer)

    for one in (gone, twice):
        with pytest.raises(Stale, match="write the mutant anew"):
            one.patched()


def test_every_mutant_is_another_program() -> None:
    """By its name, and by its text, which is Python where it has to be."""
    names = [mutant.name for mutant in ALL]
    texts = {(mutant.file, mutant.patched()) for mutant in ALL}

    assert len(set(names)) == len(names)
    assert len(texts) == len(ALL)
    for mutant in ALL:
        assert mutant.patched() != mutant.path.read_text()
        if mutant.file.endswith(".py"):
            ast.parse(mutant.patched(), mutant.file)


def test_every_named_test_exists() -> None:
    named = sorted({node(mutant) for mutant in ALL})

    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named],
        cwd=TOP, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]
    found = [line for line in told.stdout.splitlines() if line.startswith("tests/")]
    assert [name for name in named if not any(line == name or line.startswith(f"{name}[") for line in found)] == []


def test_the_gate_has_eight_of_several_harnesses() -> None:
    gate = [mutant for mutant in ALL if mutant.gate]

    assert len(gate) == 8
    assert len({mutant.harness for mutant in gate}) >= 4


def test_a_copy_is_what_every_process_imports(tmp_path: Path) -> None:
    """The sentinel of the copy speaks in a process that finds it first, as the tests' own processes do."""
    copy = Copy(tmp_path, next(mutant for mutant in ALL if mutant.file == "domain/decide.py"))

    subprocess.run(
        [sys.executable, "-c", "import fencepost.domain.decide as d; print(d.__file__)"],
        env={"PYTHONPATH": str(copy.source)}, check=True, capture_output=True,
    )  # fmt: skip

    assert len(copy.importers()) == 1
    assert (copy.source / "fencepost/domain/decide.py").read_text() != (
        TOP / "src/fencepost/domain/decide.py"
    ).read_text()


def test_the_documentation_has_each_with_its_harness() -> None:
    page = (TOP / "docs/reliability/proofs.md").read_text()

    rows = re.findall(r"^\| ([^|]+) \| `(tests/[^|`]+\.py)::(\w+)` \|$", page, re.MULTILINE)

    assert sorted(rows) == sorted((mutant.name, *_place(mutant)) for mutant in ALL)


@pytest.mark.parametrize(
    ("of_the_mutant", "of_the_sources", "killed"),
    [("waited", "", True), ("waited", "waited", False), ("waited", "killed", False)],
)
def test_a_wait_that_ended_counts_only_where_it_does_not_end_anyway(
    of_the_mutant: str, of_the_sources: str, killed: bool
) -> None:
    """On a full machine a story's first line may wait in vain, whatever is broken."""
    said = Said(True, of_the_mutant == "waited", frozenset(), "not within 30 s", 31.0, ())
    passed = frozenset() if of_the_sources else frozenset({"the test"})
    unbroken = Said(bool(of_the_sources), of_the_sources == "waited", passed, "as it is", 5.0, ())

    judged = confirmed(said, unbroken)

    assert (judged.killed, judged.seconds) == (killed, 36.0)


def _place(mutant: Mutant) -> tuple[str, str]:
    """File and test; for the checks that are parameters of one test, the check."""
    file, _, test = mutant.killer.partition("::")
    name, _, parameter = test.partition("[")
    return file, parameter.rstrip("]").removeprefix("{pg}-") if parameter.startswith("{pg}-") else name
