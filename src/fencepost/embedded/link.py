"""How we ask the embedded server something: one statement on a connection that the caller's PG* variables do not bend.

libpq takes from the environment whatever a connection string does not say: a service that does not exist, options that
make every statement time out, a time zone that the server refuses. Most could be outweighed by a parameter, some cannot,
and the variables are the whole process's, so they are not taken away meanwhile either. Where there are some, a short-lived
process without them asks instead.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from fencepost.embedded.binaries import libpq_variables, tool_environment
from fencepost.errors import EmbeddedServerError

_CONNECT_S = 3
_ANSWER_S = 30  # making a database copies a template
_PROGRAM = """
import json, sys
asked = json.load(sys.stdin)
sys.path[:] = asked["path"]
from fencepost.embedded.link import here
try:
    print(json.dumps({"row": here(asked["dsn"], asked["statement"])}))
except Exception as error:
    print(json.dumps({"error": str(error)}))
"""


def ask(dsn: str, statement: str) -> list[Any] | None:
    """The first row of the answer; None when it has no rows.

    Raises:
        EmbeddedServerError: with what libpq or the server said, in one line.
    """
    try:
        if libpq_variables():
            return _apart(dsn, statement)
        return here(dsn, statement)
    except (psycopg.Error, OSError) as error:
        raise EmbeddedServerError(" ".join(str(error).split()) or type(error).__name__) from error


def here(dsn: str, statement: str) -> list[Any] | None:
    """Ask on a connection of this process. Raises psycopg's errors."""
    with psycopg.connect(dsn, connect_timeout=_CONNECT_S, autocommit=True) as conn:
        found = conn.execute(statement.encode())
        row = found.fetchone() if found.description else None
    return None if row is None else list(row)


def _apart(dsn: str, statement: str) -> list[Any] | None:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _PROGRAM],
            input=json.dumps(
                {"dsn": dsn, "statement": statement, "path": [word or str(Path.cwd()) for word in sys.path]}
            ),
            env=tool_environment(),
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise EmbeddedServerError(f"no answer within {_ANSWER_S} s") from None
    except ValueError:
        raise EmbeddedServerError(f"no answer: {done.stderr.strip()[-200:]}") from None
    if "error" in answer:
        raise EmbeddedServerError(" ".join(answer["error"].split()))
    row: list[Any] | None = answer["row"]
    return row
