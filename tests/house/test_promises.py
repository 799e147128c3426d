"""Each promise of docs/promises.md is shown by a test that exists."""

from __future__ import annotations

import re

from house.tree import TOP

ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", (TOP / "docs/promises.md").read_text(), re.MULTILINE)


def test_the_promises_are_numbered_without_a_gap() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) >= 30


def test_each_promise_names_tests_that_exist() -> None:
    for number, promise, shown in ROWS:
        named = re.findall(r"`([^`]+\.py)::(test_\w+)`", shown)
        assert named, f"row {number} names no test: {promise}"
        for file, test in named:
            assert f"def {test}(" in (TOP / "tests" / file).read_text(), f"row {number}: {file} has no {test}"
