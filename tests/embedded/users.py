"""A program that uses an embedded server: started, killed and ended by the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAM = """
import sys
from pathlib import Path
from fencepost.embedded.server import EmbeddedServer

server = EmbeddedServer(Path(sys.argv[1])).start()
print(server.status().pid, flush=True)
sys.stdin.read()
"""


class User:
    """A process of its own that holds the server of ``root`` until it is ended or killed."""

    def __init__(self, root: Path, program: str = PROGRAM, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def word(self) -> str:
        """Its next word; the first is the pid of the postmaster that it found or started."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def server_pid(self) -> int:
        return int(self.word())

    def end(self) -> None:
        """Let it end in good order."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        self._close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
