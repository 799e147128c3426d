"""Each command of ``fencepost bench``, tiny, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.shell import environment, fencepost, spawn
from fencepost.bench.ground import BARE_SCHEMA, SCHEMA
from processtable import of_folder
from servers import Database
from waiting import eventually

TINY = {
    "drain": ("--jobs", "200", "--rounds", "1"),
    "enqueue": ("--single", "100", "--bulk", "100", "--connections", "2", "--rounds", "1"),
    "latency": ("--jobs", "100", "--per-s", "1000", "--rounds", "1"),
    "backlog": ("--pending", "3000", "--finished", "10", "--jobs", "100", "--rounds", "2"),
    "flow": ("--seconds", "4", "--edge", "2", "--pin", "dump"),
}
FIGURES = {
    "drain": {"jobs_per_s", "bare_jobs_per_s", "ratio_to_bare", "cpu_s_per_10k", "spread"},
    "enqueue": {"single_jobs_per_s", "bulk_jobs_per_s", "single_to_commit", "single_2_to_commit_2", "bulk_to_copy"},
    "latency": {"p50_ms", "p99_ms", "commit_ms", "p50_over_two_commits_ms", "spread"},
    "backlog": {"jobs_per_s", "small_jobs_per_s", "ratio_to_small"},
    "flow": {"jobs", "first", "last", "last_to_first", "per_s"},
}
FACTS = {"bench", "fencepost", "python", "psycopg", "postgresql", "cores", "machine", "load", "settings"}


def schemas(database: Database) -> set[str]:
    with database.connect() as conn:
        return {row[0] for row in conn.execute("select nspname from pg_namespace where nspname like 'fencepost%'")}


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_a_command_ends_with_one_line_of_json_and_leaves_no_schema(name: str, empty_database: Database) -> None:
    done = spawn("bench", name, *TINY[name], "--json", "--dsn", empty_database.dsn)

    assert done.code == 0, done.err
    (line,) = done.out.splitlines()
    figures: dict[str, Any] = json.loads(line)
    assert figures["bench"] == name
    assert FIGURES[name] | FACTS <= set(figures)
    assert all(figures[one] != 0 for one in FIGURES[name])
    assert schemas(empty_database) == set()


@pytest.mark.parametrize("schema", [SCHEMA, BARE_SCHEMA])
def test_a_database_with_our_schemas_is_refused_and_nothing_of_it_is_touched(
    schema: str, empty_database: Database
) -> None:
    with empty_database.connect() as conn:
        conn.execute(f"create schema {schema} create table job (id int)")

    done = spawn("bench", "drain", "--dsn", empty_database.dsn)

    assert done.code == 2
    assert schema in done.sentence
    assert schemas(empty_database) == {schema}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain", "--jobs", "99"), "--jobs"),
        (("drain", "--rounds", "0"), "--rounds"),
        (("drain", "--handler", "fork"), "--handler"),
        (("enqueue", "--connections", "1"), "--connections"),
        (("latency", "--per-s", "0"), "--per-s"),
        (("backlog", "--pending", "2000", "--jobs", "300", "--rounds", "4"), "--pending"),
        (("flow", "--seconds", "1"), "--seconds"),
        (("flow", "--pin", "me"), "--pin"),
        (("drain", "--dsn", "nonsense"), "dsn"),
    ],
    ids=" ".join,
)
def test_bad_options_give_one_sentence(words: tuple[str, ...], said: str) -> None:
    done = fencepost("bench", *words)

    assert done.code == 2
    assert said in done.sentence
    assert done.out == ""


def test_a_database_that_is_away_gives_one_sentence() -> None:
    done = spawn("bench", "drain", "--dsn", "postgresql://shop@127.0.0.1:9/shop?connect_timeout=2")

    assert done.code == 1
    assert "unexpected" not in done.sentence


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(
    ("words", "number", "to_all"),
    [
        (("drain", "--jobs", "1000000"), signal.SIGTERM, False),
        (("flow",), signal.SIGINT, True),
    ],
    ids=["drain TERM", "flow Ctrl-C"],
)
def test_who_is_told_to_end_leaves_neither_server_nor_worker(
    words: tuple[str, ...], number: signal.Signals, to_all: bool, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "bench", *words],
        env=environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        eventually(lambda: len(of_folder(tmp_path)) > 3, within=60)  # the server is there

        if to_all:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)

        _, err = process.communicate(timeout=40)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        eventually(lambda: not of_folder(tmp_path), within=30)
        assert [path for path in tmp_path.iterdir() if path.name.startswith("fencepost-bench")] == []
    finally:
        process.kill()
        process.wait()
