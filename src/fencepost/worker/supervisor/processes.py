"""One worker process, as its supervisor holds it: descriptors, board, sign of life.

Start protocol: ``python -m fencepost.worker.child BOARD CONTROL CONFIG HELLO`` with four descriptor numbers and nothing
else, since arguments show in ``ps``. CONFIG is read to its end: one JSON object with ``app``, ``settings``, ``dsn``,
``schema``, ``number``, ``entries`` and ``logs``. The child answers one JSON line on HELLO:
``{"ok": true, "dsn": ..., "schema": ..., "tasks": n}`` or ``{"ok": false, "message": ..., "exit_code": n}``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.worker import words
from fencepost.worker.board import PID, PING, Board, Phase, boot_ns
from fencepost.worker.life import cpu_ns
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervisor import strays

log = logging.getLogger("fencepost.supervisor")

PROGRAM = ("-m", "fencepost.worker.child")
"""What a child runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What every child of this supervisor is told. ``dsn`` and ``schema`` None: the app's own."""

    app: str
    settings: WorkerSettings
    dsn: str | None = None
    schema: str | None = None
    logs: dict[str, Any] = field(default_factory=dict)
    program: Sequence[str] = PROGRAM

    def config(self, number: int) -> bytes:
        """The JSON for one child."""
        return json.dumps(
            {
                "app": self.app,
                "settings": json.loads(self.settings.to_json()),
                "dsn": self.dsn,
                "schema": self.schema,
                "number": number,
                "entries": self.settings.entries,
                "logs": self.logs,
            }
        ).encode()


class Child:
    """One started process. Made in the main thread only; all but `tell` and reading belongs to the watch."""

    def __init__(self, number: int, launch: Launch, board_fd: int) -> None:
        self.number = number
        self.board = Board(board_fd, number, launch.settings.entries)
        self.board.wipe()
        self.mark = strays.new_mark(number)
        self.hello = b""
        self.greeted = False
        self.hello_over = False
        """Whether nothing more will come on the hello pipe."""
        self.overdue: set[int] = set()
        """Jobs for which we end it: a timeout, not a crash."""
        self.deliberate = False
        """We ended it: its other jobs were interrupted, and nobody is blamed."""
        self.refused_to_stop = False
        self.silent = False
        self.alive_at = self.started_at = boot_ns()
        self.died_at = 0.0
        self.handed_back: set[tuple[int, int]] = set()
        """Runs that the clerk took back unstarted and that may still be on the board."""
        self.hand_back_asked = False
        self._seen = (0, 0)
        self._start(launch, board_fd)

    def _start(self, launch: Launch, board_fd: int) -> None:
        control, self._pipe = os.pipe()
        self.hello_fd, hello = os.pipe()
        config = _sealed(launch.config(self.number))
        fds = (board_fd, control, config, hello)
        try:
            self.process = subprocess.Popen(
                [sys.executable, *launch.program, *map(str, fds)],
                pass_fds=fds,
                process_group=0,
                stdin=subprocess.DEVNULL,
                env=strays.marked_environment(self.mark),
            )
        finally:
            for fd in (control, config, hello):
                os.close(fd)
        os.set_blocking(self._pipe, False)  # a frozen child reads nothing; it must not freeze us
        os.set_blocking(self.hello_fd, False)
        self.pid = self.process.pid
        self.pidfd: int | None = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None

    def __repr__(self) -> str:
        return f"<child {self.number} pid {self.pid}>"

    @property
    def token(self) -> int:
        """Its lease token; 0 until it has one."""
        return self.board.token

    @property
    def phase(self) -> Phase:
        """What it is doing."""
        return self.board.phase

    def tell(self, word: words.Word) -> None:
        """Write a word to its pipe; a full or broken pipe loses it. From any thread: each line is written at once."""
        for line in words.encode(word):
            with contextlib.suppress(OSError):
                os.write(self._pipe, line)

    def read_hello(self) -> dict[str, Any] | None:
        """What it answered, once the line is complete; None before."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.hello_fd, 65536):
                self.hello += data
            self.hello_over = True
        line, end, _ = self.hello.partition(b"\n")
        if not end or self.greeted:
            return None
        self.greeted = True
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        return answer if isinstance(answer, dict) else {"ok": False, "message": "the worker process answered nonsense"}

    def look(self, patience_ns: int) -> bool:
        """Whether it shows life: any CPU time since the last look, or a ping."""
        now = boot_ns()
        seen = (self.board.words[PING], cpu_ns(self.pid))
        if seen != self._seen:
            self._seen, self.alive_at = seen, now
        return now - self.alive_at < patience_ns

    def ping_age_ns(self) -> int:
        """How long its ping thread has not run; 0 before its first ping."""
        ping = self.board.words[PING]
        return boot_ns() - ping if ping else 0

    def kill(self) -> None:
        """SIGKILL for it and everything in its group."""
        for send in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                send(self.pid, signal.SIGKILL)

    def is_group_empty(self) -> bool:
        """Whether nobody is left in its process group; zombies count until they are collected."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # macOS says so of zombies; untested
            return False
        return False

    def has_ended(self) -> bool:
        """Whether the process itself is over (asked where there are no pidfds)."""
        return self.process.poll() is not None

    def close(self) -> None:
        """Let go of our ends, after its death."""
        os.close(self._pipe)
        os.close(self.hello_fd)
        if self.pidfd is not None:
            os.close(self.pidfd)

    def describe(self) -> str:
        """For the log."""
        return f"worker process {self.number} (pid {self.board.words[PID] or self.pid})"


def _sealed(data: bytes) -> int:
    """An anonymous file with this content, to be read from its start by whoever inherits it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("fencepost-config", os.MFD_CLOEXEC)
    else:  # pragma: no cover - macOS; untested
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
