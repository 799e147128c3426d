"""Starts and ends the programs of the demo: the provider, the sink, and ``fencepost worker``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from fencepost.errors import FencepostError

PATIENCE_S = 20.0


class Witness:
    """A local server in a process of its own; it ends when its stdin does, so it cannot outlive the demo."""

    def __init__(self, module: str, log: Path) -> None:
        self.log = log
        log.touch()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.strip().isdigit():
            raise FencepostError(f"the demo's {module.rsplit('.', 1)[-1]} did not start; its message stands above")
        self.port = int(line)

    def stop(self) -> None:
        """End it and wait."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        _end(self._process)


class Workers:
    """One ``fencepost worker`` command with its worker processes; its log goes to a file."""

    def __init__(self, dsn: str, processes: int, log: Path) -> None:
        self._log: IO[bytes] = log.open("ab")
        queues = ("webhooks:32", "mail:8", "reports:2")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "fencepost", "worker", "fencepost.demo.jobs:app"),
                *("--processes", str(processes)),
                *(word for queue in queues for word in ("--queue", queue)),
            ],
            env={**os.environ, "FENCEPOST_DSN": dsn},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def ended(self) -> int | None:
        """The command's exit code if it is over."""
        return self._process.poll()

    def stop(self) -> int:
        """SIGTERM, as an orchestrator would; the exit code. 0 means: everything was finished or handed back."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = _end(self._process)
        self._log.close()
        return code


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
