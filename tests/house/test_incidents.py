"""docs/reliability/proofs.md: each incident has its row, its file, and a story at the file's beginning."""

from __future__ import annotations

import ast
import re

from house.tree import TOP

ROWS = re.findall(
    r"^\| (\d+|–) \| .+ \| `(incidents/test_\w+\.py)` \|$",
    (TOP / "docs/reliability/proofs.md").read_text(),
    re.MULTILINE,
)


def test_each_incident_has_a_row_and_each_row_a_file() -> None:
    files = sorted(f"incidents/{path.name}" for path in (TOP / "tests/incidents").glob("test_*.py"))

    assert [number for number, _ in ROWS] == [*map(str, range(1, 14)), "–"]
    assert [file for _, file in ROWS] == files


def test_each_incident_begins_with_its_story() -> None:
    for number, file in ROWS:
        story = ast.get_docstring(ast.parse((TOP / "tests" / file).read_text())) or ""
        assert len(story.splitlines()) > 3, file
        assert number == "–" or story.startswith(f"Incident {number}: "), file
