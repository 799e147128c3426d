"""Migrators in processes of their own, which can be killed at any point.

As a program it reads one JSON object a line, {"dsn", "schema", "die_at", "after"}, migrates in a forked child and answers
one line {"status", "waits"}. ``die_at`` n: the child kills itself, with SIGKILL, before (or after) its n-th exchange with
the server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

import fencepost
from fencepost.sql.catalog import Catalog, SqlFile

SOURCES = Path(fencepost.__file__).parents[1]
"""Those under test, wherever they lie."""

SHAPE = """
select 'column', c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
       pg_get_expr(d.adbin, d.adrelid), array_to_string(c.reloptions, ',')
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum where c.relnamespace = %(schema)s::text::regnamespace
union all select 'index', c.relname, pg_get_indexdef(i.indexrelid), i.indisvalid::text, '', '', ''
  from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace = %(schema)s::text::regnamespace
union all select 'constraint', conname, pg_get_constraintdef(oid), '', '', '', ''
  from pg_constraint where connamespace = %(schema)s::text::regnamespace
union all select 'function', proname, pg_get_functiondef(oid), array_to_string(proacl, ','), '', '', ''
  from pg_proc where pronamespace = %(schema)s::text::regnamespace
union all select 'view', viewname, definition, '', '', '', '' from pg_views where schemaname = %(schema)s::text
union all select 'record', name, kind, phase, breaking::text, program, '' from {schema}.migration
"""


def shape(conn: psycopg.Connection[Any], name: str = "fencepost") -> list[tuple[str, ...]]:
    """Everything that makes the schema what it is, sorted, its name taken out."""
    rows = conn.execute(SHAPE.replace("{schema}", name).encode(), {"schema": name}).fetchall()
    return sorted(tuple(str(value).replace(name, "SCHEMA") for value in row) for row in rows)


def with_files(*files: SqlFile, only: bool = False) -> Catalog:
    """A catalogue of another release: these migrations more, or only these."""

    class Other(Catalog):
        def migrations(self) -> list[SqlFile]:
            return [*([] if only else super().migrations()), *files]

    return Other()


class Migrators:
    """The parent's end: asks for one migration after the other."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def migrate(self, dsn: str, schema: str, *, die_at: int | None = None, after: bool = False) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"dsn": dsn, "schema": schema, "die_at": die_at, "after": after}) + "\n")
        stdin.flush()
        found: dict[str, Any] = json.loads(stdout.readline())
        return found

    def close(self) -> None:
        self._process.communicate(timeout=10)


def start(dsn: str, schema: str) -> subprocess.Popen[str]:
    """One migrator in a process of its own; it prints what it says, a line each, and its report at the end."""
    code = (
        "import sys\n"
        "from fencepost.sql.catalog import Catalog\n"
        "from fencepost.store import schema\n"
        "say = lambda line: print(line, flush=True)\n"
        "print('report', schema.migrate(sys.argv[1], Catalog(sys.argv[2]), progress=say), flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.Popen(
        [sys.executable, "-c", code, dsn, schema],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def _migrate_and_count(order: dict[str, Any]) -> int:
    """Migrate, and die at the wait that was asked for; the answer is how often the database was waited for."""
    from fencepost.sql.catalog import Catalog
    from fencepost.store import connect, schema

    waits = 0
    real = connect.DeadlineConnection.wait

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal waits
        waits += 1
        if waits == order["die_at"] and not order["after"]:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = real(self, *args, **options)
        if waits == order["die_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    connect.DeadlineConnection.wait = counted  # type: ignore[method-assign]
    schema.migrate(order["dsn"], Catalog(order["schema"]))
    return waits


def _serve() -> None:
    from fencepost.store import schema  # noqa: F401 - loaded once, before the forks

    for line in sys.stdin:
        order = json.loads(line)
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(tell, str(_migrate_and_count(order)).encode())
            os._exit(0)
        os.close(tell)
        _, status = os.waitpid(child, 0)
        waits = int(os.read(told, 20) or 0)
        os.close(told)
        print(json.dumps({"status": status, "waits": waits}), flush=True)


if __name__ == "__main__":
    _serve()
