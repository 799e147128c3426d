"""The log inside the database, and what is written down of the database at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg

from fencepost.testing.torture.settings import LOG_SCHEMA, SCHEMA

_PAGE = 5000

_FINAL = {
    "jobs": """SELECT to_jsonb(x) FROM (SELECT id, job_id, task, state, run_count, attempts, crashes, snoozes, unique_key,
        last_error_code AS error_code FROM {schema}.jobs ORDER BY id) x""",
    "runs": """SELECT to_jsonb(x) FROM (SELECT id, run_count, token, how, spent, refused, error_code
        FROM {schema}.runs ORDER BY id, run_count) x""",
    "fsck": "SELECT to_jsonb(x) FROM {schema}.fsck x",
    "database": """SELECT to_jsonb(x) FROM (SELECT n, txid, extract(epoch FROM at)::float8 AS at, place, op, id, line AS row
        FROM {log}.moves ORDER BY n) x""",
}

_TEXTS = """SELECT 'the database, ' || place || ' ' || id FROM (
    SELECT 'outcome' AS place, id, error FROM {schema}.outcome
    UNION ALL SELECT 'attempt', id, error FROM {schema}.attempt
    UNION ALL SELECT 'carry', id, error FROM {schema}.carry) x
  WHERE position(%s in error) > 0"""


def begin(conn: psycopg.Connection[Any], schema: str = SCHEMA) -> None:
    """Make the log of the library's tables, which must be there."""
    text = resources.files("fencepost.testing.torture").joinpath("log.sql").read_text(encoding="utf-8")
    conn.execute(_filled(text, schema).encode())


def export(conn: psycopg.Connection[Any], folder: Path, schema: str = SCHEMA) -> None:
    """Write the final state and the whole log, page by page."""
    for name, statement in _FINAL.items():
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for (line,) in _paged(conn, _filled(statement, schema)):
                file.write(json.dumps(line) + "\n")


def leaks(conn: psycopg.Connection[Any], folder: Path, secret: str) -> None:
    """Look for the secret in every text that was stored or logged, and write down where it was found."""
    found = [place for (place,) in _paged(conn, _filled(_TEXTS), secret)]
    for log in sorted(folder.glob("*.log")):
        with log.open("rb") as file:
            if any(secret.encode() in line for line in file):
                found.append(f"the log {log.name}")
    with (folder / "secrets.jsonl").open("w") as file:
        for place in found:
            file.write(json.dumps({"where": place, "found": "the secret of a body's error"}) + "\n")


def _filled(text: str, schema: str = SCHEMA) -> str:
    return text.replace("{schema}", schema).replace("{log}", LOG_SCHEMA)


def _paged(conn: psycopg.Connection[Any], statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
    with conn.transaction(), conn.cursor(name="torture") as cursor:
        cursor.itersize = _PAGE
        cursor.execute(statement.encode(), values or None)
        yield from cursor
