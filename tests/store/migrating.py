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

SOURCES = Path(__file__).resolve().parents[2] / "src"


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
