"""docs/reliability/failures.md: every failure of the catalogue once, with a test that exists or the words "not yet"."""

from __future__ import annotations

import re

from house.tree import TOP

ROWS = re.findall(
    r"^\| ([A-Z]{3}-.+?) \| (.+?) \| (.+?) \| (.*?) ?\|$",
    (TOP / "docs/reliability/failures.md").read_text(),
    re.MULTILINE,
)
KINDS = {
    "STK": 9, "DBL": 11, "ZMB": 3, "HBT": 4, "UNQ": 10, "NTF": 11, "DBO": 5, "DLK": 3, "PSN": 10, "DEP": 5, "MIG": 4, "PLN": 8, "CRN": 16, "SIG": 14, "TMO": 6, "RTR": 6,
    "PRI": 3, "BLK": 2, "SEC": 6, "ORM": 6, "TXN": 3, "TMZ": 3,
}  # fmt: skip


def test_every_failure_has_its_row() -> None:
    found = {name for row in ROWS for name in _names(row[0])}

    assert found == {f"{kind}-{n}" for kind, count in KINDS.items() for n in range(1, count + 1)}


def test_each_row_names_tests_that_exist_or_says_not_yet() -> None:
    for name, _, here, shown in ROWS:
        tests = re.findall(r"`([^`]+\.py)::(test_\w+)`", shown)
        assert tests or "**not yet**" in here, f"{name} names no test"
        for file, test in tests:
            assert f"def {test}(" in (TOP / "tests" / file).read_text(), f"{name}: {file} has no {test}"


def _names(text: str) -> list[str]:
    kind = text[:3]
    first, _, last = text.partition(" to ")
    numbers = range(int(first[4:]), int((last or first)[4:]) + 1)
    return [f"{kind}-{n}" for n in numbers]
