"""`fencepost torture` itself: it finds what it is there to find, and leaves somebody's database as it was."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from house.tree import TOP
from servers import Database

FENCE = r" AND [ry]\.token = (?:p\.token|u\.token|p_token)\b"
MUTANTS = {
    # which parts of the fence are gone, in which functions, and which faults can show it
    "unfenced": (
        r" AND [ry]\.run_count = (?:p|u)\.rc" + FENCE,
        ("_settle",),
        "freeze-worker,freeze-machine,kill-worker",
    ),
    "tokenless": (
        FENCE,
        ("_settle", "heartbeat_v1", "start_v1", "checkpoint_v1"),
        "failover-forgetful,kill-worker",
    ),
}


def torture(*words: str, sources: Path | None = None) -> tuple[int, dict[str, Any], str]:
    """Exit code, the figures, and what was said on the way."""
    environment = {**os.environ} | ({"PYTHONPATH": str(sources)} if sources else {})
    told = subprocess.run(
        [sys.executable, "-m", "fencepost", "torture", "--json", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    return told.returncode, json.loads(told.stdout or "{}"), told.stderr


@pytest.mark.timeout(300)
@pytest.mark.spec("C3", "D4")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_storage_that_does_not_fence_is_caught_within_a_minute(name: str, tmp_path: Path) -> None:
    fence, functions, faults = MUTANTS[name]
    sources = tmp_path / "src"
    shutil.copytree(TOP / "src", sources)
    for function in functions:
        path = sources / "fencepost" / "sql" / "functions" / f"{function}.sql"
        text, times = re.subn(fence, "", path.read_text())
        assert times, f"nothing to break in {function}"
        path.write_text(text)

    code, told, said = torture(
        "--seconds", "60", "--faults", faults, "--folder", str(tmp_path / "seen"), sources=sources
    )

    assert code == 1, (told, said)
    assert "P2" in told["rules"]


@pytest.mark.timeout(200)
def test_on_somebodys_database_only_its_own_schemas_are_made_and_removed(
    empty_database: Database, tmp_path: Path
) -> None:
    code, told, said = torture(
        "--dsn",
        empty_database.dsn,
        "--seconds",
        "20",
        "--folder",
        str(tmp_path / "seen"),
        "--report",
        str(tmp_path / "r.html"),
    )

    assert told.get("violation_count") == 0, (code, told, said)
    assert told["jobs"] > 300
    assert "failover" not in told["faults"]
    assert "<html" in (tmp_path / "r.html").read_text()
    with empty_database.connect() as conn:
        left = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'fencepost%'").fetchall()
    assert left == []


def test_a_database_with_other_tables_is_refused(database: Database) -> None:
    code, _, said = torture("--dsn", database.dsn, "--seconds", "5")

    assert code == 2
    assert "other tables" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--faults", "kill-cat"), "'kill-cat' is not possible here"),
        (("--seconds", "1"), "--seconds must be between"),
        (("--folder", "."), "is not an empty folder"),
    ],
)
def test_wrong_wishes_are_told_in_a_sentence(words: tuple[str, ...], sentence: str) -> None:
    code, _, said = torture(*words)

    assert code == 2
    assert sentence in said
    assert "Traceback" not in said
