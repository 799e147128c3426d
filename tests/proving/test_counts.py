"""What `make prove` adds up."""

from __future__ import annotations

import json
from pathlib import Path

from proving.run import Proved, count


def test_the_numbers_of_all_tests_are_added_up(tmp_path: Path) -> None:
    told = tmp_path / "told.xml"
    told.write_text(
        "<testsuites><testsuite><testcase><properties>"
        '<property name="orders" value="60"/><property name="points" value="7"/><property name="other" value="1"/>'
        '</properties></testcase><testcase><properties><property name="orders" value="5"/></properties></testcase>'
        "</testsuite></testsuites>"
    )
    proved = Proved()

    count(proved, told)

    line = json.loads(proved.line())
    assert (line["orders"], line["points"], line["violations"]) == (65, 7, 0)
    wanted = {"jobs", "faults", "rescues", "refused_late_writes", "violations", "orders", "points"}
    assert wanted | {"mutants_killed", "mutants_total"} <= line.keys()
