"""Runs the command: `spawn` as a user's shell does, in a process of its own; `fencepost` in this one, which is faster.

Both give it nothing of our environment but the path. Each command is spawned by some test.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fencepost.cli.main import main


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


def fencepost(*words: str, env: Mapping[str, str] | None = None) -> Ended:
    """Run ``fencepost WORDS`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(**(env or {})), clear=True),
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(list(words))
    return _checked(words, env, Ended(code, out.getvalue(), err.getvalue()))


def spawn(*words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 60) -> Ended:
    """Run ``fencepost WORDS`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        env=environment(**(env or {})),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return _checked(words, env, Ended(done.returncode, done.stdout, done.stderr))


def _checked(words: tuple[str, ...], env: Mapping[str, str] | None, ended: Ended) -> Ended:
    asked = "--traceback" in words or "FENCEPOST_TRACEBACK" in (env or {})
    assert asked or "Traceback" not in ended.err, ended.err
    return ended
