"""A plugin of the runs against mutants: notes each test that passed, and how each other one failed.

Killed by a test is what an assertion of it or the end of its patience says. An import that fails, a fixture that cannot
be made, a refused statement prove nothing: a mutant that breaks everything would be "killed" by anything.
"""

from __future__ import annotations

import json
import os
import subprocess
import traceback
from collections.abc import Generator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
_SAYS_NO = (AssertionError, TimeoutError, subprocess.TimeoutExpired, pytest.fail.Exception)
_PATIENCE = (TimeoutError, subprocess.TimeoutExpired, pytest.fail.Exception)
_UNPACKED = (ValueError, LookupError)
"""``(one,) = found`` is an assertion about how many there are, where the test itself says so."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is None:
        if call.when == "call":
            _note(item, "passed", "")
    elif call.when == "call" and _is_verdict(call.excinfo.value):
        _note(item, "waited" if _is_patience(call.excinfo.value) else "killed", _line(call.excinfo.value))
    else:
        _note(item, "broken", f"{call.when}: {_line(call.excinfo.value)}")
    return report


def _is_verdict(error: BaseException) -> bool:
    if isinstance(error, _SAYS_NO) or type(error).__name__ == os.environ.get("MUTANTS_BY"):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, _UNPACKED) and bool(frames) and Path(frames[-1].filename).is_relative_to(TESTS)


def _is_patience(error: BaseException) -> bool:
    """Whether a wait ended: which a machine without time for anybody brings about as well as a mutant does."""
    last: BaseException | None = error
    while last is not None:
        frames = traceback.extract_tb(last.__traceback__)
        if isinstance(last, _PATIENCE) or any(Path(frame.filename) == TESTS / "waiting.py" for frame in frames):
            return True
        last = last.__cause__
    return False


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:200]


def _note(item: pytest.Item, word: str, text: str) -> None:
    with Path(os.environ["MUTANTS_WITNESS"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": item.nodeid, "word": word, "text": text}) + "\n")
