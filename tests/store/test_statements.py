"""House rules of SQL: it lies in files, each is used, each is known to the server, and none is anywhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import psycopg
import pytest

import fencepost
from servers import Database
from store.hands import SQL

SOURCES = Path(fencepost.__file__).parent
UTILITY = {
    name for name in SQL.statement_names() if name.startswith("duties/vacuum_") and name != "duties/vacuum_candidates"
}
UNKNOWN = 705
ELSEWHERE = {name for name in SQL.statement_names() if name.startswith("embedded/")}  # not about the schema
UTILITY.add("schema/prepare")

_SQL = re.compile(
    r"\s*(select\s[^.]*\bfrom\s+\w|select\s+[\w.]+\(|insert\s+into\s+\w|delete\s+from\s+\w|update\s+\S+\s+set\s|with\s+\w+\s+as\s*\(|"
    r"(create|alter|drop)\s+(table|schema|index|function|role|database|view|trigger)\b|truncate\s+\w|set\s+(local|session)\s|"
    r"set\s+\w+\s*(=|to)\s|show\s+\w+_|vacuum\s+[(\w]+\s|listen\s+[\"{]|notify\s+[\"{]|lock\s+table|do\s+\$)",
    re.IGNORECASE,
)


MAY = ("bench/", "demo/", "testing/", "worker/child/wake.py")
"""Benchmark, demo and torture are users with tables of their own; LISTEN names a channel, which is no parameter."""


def header_of(name: str) -> str:
    return (SOURCES / "sql" / "statements" / f"{name}.sql").read_text().split("\n\n")[0]


def test_every_statement_is_known_to_the_server(database: Database) -> None:
    """PREPARE finds a misspelt column, a function that is gone, and a parameter without a type."""
    with database.connect() as conn:
        for name in SQL.statement_names():
            if name in UTILITY | ELSEWHERE:
                continue
            result = conn.pgconn.prepare(b"", numbered(SQL.statement(name)).encode())
            assert result.status == psycopg.pq.ExecStatus.COMMAND_OK, f"{name}: {result.error_message.decode()}"
            described = conn.pgconn.describe_prepared(b"")
            types = [described.param_type(n) for n in range(described.nparams)]
            assert UNKNOWN not in types, f"{name}: a parameter without a type"


def numbered(text: str) -> str:
    """The statement as the server wants it: parameters have numbers, in the order of first use."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)[sb]", text)))
    return re.sub(r"%\((\w+)\)[sb]", lambda found: f"${names.index(found[1]) + 1}", text).replace("%%", "%")


@pytest.mark.parametrize("name", sorted(UTILITY))
def test_utility_statements_run_as_they_are(database: Database, name: str) -> None:
    with database.connect() as conn:
        conn.execute(SQL.statement(name).encode())


def test_every_statement_is_used_in_one_place_and_every_use_is_there() -> None:
    used: dict[str, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.fullmatch(r"[a-z]+/[a-z_]+", node.value)
            ):
                used.setdefault(node.value, set()).add(str(path.relative_to(SOURCES)))
    names = set(SQL.statement_names())
    ours = {name: files for name, files in used.items() if name.split("/")[0] in {n.split("/")[0] for n in names}}

    assert sorted(names - set(ours)) == [], "statements that nobody uses"
    assert sorted(set(ours) - names) == [], "uses of statements that are not there"
    rooms = {name: {str(Path(file).parent) for file in files} for name, files in ours.items()}
    assert {name: found for name, found in rooms.items() if len(found) > 1} == {}, "one room, one use"


def test_every_statement_says_what_it_is_and_what_it_locks() -> None:
    for name in sorted(set(SQL.statement_names()) - ELSEWHERE):
        header = header_of(name)
        assert header.startswith(f"-- {name.split('/')[1]}: "), f"{name}: the first line is its name and purpose"
        functions = re.findall(r"functions/(\w+)\.sql", header)
        for function in functions:
            assert (SOURCES / "sql" / "functions" / f"{function}.sql").is_file(), (
                f"{name} names functions/{function}.sql"
            )
        assert functions or re.search(r"^-- locks:", header, re.MULTILINE), f"{name}: says nothing of locks"


def test_sql_lies_in_files_only() -> None:
    """Values are parameters and words are in ``sql/``: no module holds a statement of its own."""
    found: list[str] = []
    for path in SOURCES.rglob("*.py"):
        where = str(path.relative_to(SOURCES))
        if where.startswith(MAY):
            continue
        tree = ast.parse(path.read_text())
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in prose and isinstance(node.value, str | bytes):
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if _SQL.match(text):
                    found.append(f"{where}:{node.lineno}: {text[:60]!r}")

    assert found == []


def test_the_schema_is_the_only_thing_that_is_filled_in() -> None:
    for path in (SOURCES / "sql").rglob("*.sql"):
        odd = set(re.findall(r"(?<![\w'$])\{(\w+)\}", path.read_text())) - {"schema"}
        assert not {word for word in odd if word.islower()}, f"{path.name}: {odd}"
