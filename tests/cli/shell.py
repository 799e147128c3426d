"""Runs the command as a user's shell does: a process of its own, with nothing of our environment but the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its output as the one JSON document that it must be."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line on stderr, without the program's name."""
        (line,) = self.err.splitlines()
        assert line.startswith("fencepost: "), self.err
        return line.removeprefix("fencepost: ")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "PG"))}
    return kept | {"COLUMNS": "200", "PYTHONWARNINGS": "error,ignore::ResourceWarning"} | more


def fencepost(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: str = "", timeout: float = 60
) -> Ended:
    """Run ``fencepost WORDS`` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        env=environment(**(env or {})),
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert "Traceback" not in done.stderr or "--traceback" in words or (env or {}).get("FENCEPOST_TRACEBACK"), (
        done.stderr
    )
    return Ended(done.returncode, done.stdout, done.stderr)
