"""What a type checker says about users' code: the right calls pass, the wrong ones are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def said() -> str:
    """What mypy --strict says about both files, in one run, with the repository's own cache."""
    files = [str(HERE / name) for name in ("good.py", "bad.py")]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=85, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def found(said: str, name: str) -> dict[int, set[str]]:
    errors: dict[int, set[str]] = {}
    for line, code in re.findall(rf"{name}:(\d+): error: .*\[([a-z-]+)\]", said):
        errors.setdefault(int(line), set()).add(code)
    return errors


def test_right_code_passes(said: str) -> None:
    assert found(said, "good.py") == {}, said
    assert not re.search(r"src/fencepost/.*error", said), said


def test_wrong_code_is_found_line_by_line(said: str) -> None:
    expected = {}
    for number, line in enumerate((HERE / "bad.py").read_text().splitlines(), 1):
        marked = re.search(r"# E: ([a-z|-]+)", line)
        if marked:
            expected[number] = set(marked[1].split("|"))

    errors = found(said, "bad.py")

    assert errors.keys() == expected.keys(), said
    for number, codes in expected.items():
        assert errors[number] & codes, f"line {number}: {errors[number]}"
