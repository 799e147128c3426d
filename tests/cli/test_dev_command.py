"""``fencepost dev``: this folder's own server, from start to reset."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli.shell import environment, spawn
from waiting import eventually


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A project's folder with a space in its name; no server is left in it."""
    project = tmp_path / "my project"
    project.mkdir()
    yield project
    spawn("dev", "stop", cwd=project)


def test_dev_runs_until_ctrl_c(folder: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "dev"], cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(5)]
    shown = next(line for line in lines if "export FENCEPOST_DSN=" in line)
    (dsn,) = (word.partition("=")[2] for word in shlex.split(shown) if "=" in word)  # as the shell reads it

    status = spawn("status", "--json", "--dsn", dsn)
    told = spawn("dev", "status", "--json", cwd=folder).data
    child.send_signal(signal.SIGINT)

    assert status.code == 0, status.err
    assert told["running"] is True
    assert told["dsn"] == dsn == spawn("dev", "dsn", cwd=folder).out.strip()
    assert child.wait(20) == 0
    child.stdout.close()
    eventually(lambda: spawn("dev", "status", cwd=folder).code == 1, within=15)


def test_dev_keep_stop_logs_psql_reset(folder: Path) -> None:
    kept = spawn("dev", "--keep", "--json", cwd=folder).data

    with psycopg.connect(kept["dsn"]) as conn:
        conn.execute("create table mine ()")
    logs = spawn("dev", "logs", "--lines", "5", cwd=folder)
    lines = spawn("dev", "logs", "--lines", "5", "--json", cwd=folder).data["lines"]
    dsn = spawn("dev", "dsn", "--json", cwd=folder).data["dsn"]
    asked = spawn("dev", "psql", "--", "-Atc", "select count(*) from fencepost.jobs", cwd=folder)
    refused = spawn("dev", "reset", cwd=folder)
    stopped = spawn("dev", "stop", cwd=folder)
    again = spawn("dev", "stop", cwd=folder)
    once_more = spawn("dev", "stop", "--json", cwd=folder).data
    reset = spawn("dev", "reset", "--yes", "--json", cwd=folder)

    assert logs.out.strip()
    if "psql is not installed" not in asked.err:
        assert asked.out.strip() == "0"
    assert refused.code == 2
    assert "give --yes" in refused.err
    assert (stopped.out, again.out) == ("stopped\n", "it was not running\n")
    assert dsn == kept["dsn"]
    assert 0 < len(lines) <= 5
    assert once_more == {"stopped": False}
    assert reset.data == {"reset": True}
    fresh = spawn("dev", "--keep", "--json", cwd=folder).data
    with psycopg.connect(fresh["dsn"]) as conn:
        row = conn.execute("select to_regclass('mine')").fetchone()
    assert row == (None,)


@pytest.mark.spec("A1")
def test_dev_keep_with_a_schema_that_cannot_be_starts_nothing(folder: Path) -> None:
    done = spawn("dev", "--keep", "--schema", "Bad Name", cwd=folder)

    assert done.code == 2
    assert spawn("dev", "status", cwd=folder).code == 1


def test_dev_in_a_folder_that_cannot_be_used_is_code_5(tmp_path: Path) -> None:
    (tmp_path / ".fencepost").write_text("a file")

    done = spawn("dev", cwd=tmp_path)

    assert done.code in (2, 5)
    assert done.sentence
