"""Descendants that left their process group, and whose they were.

`killpg` misses whoever made a session of its own (daemons, ``start_new_session=True``). As child subreaper the
supervisor becomes the parent of such orphans, and a mark in the environment, inherited by all descendants, tells whose
they were: without it strays of *living* children would be killed. They must also be collected, or their group looks
inhabited.

Linux only. Elsewhere (macOS, untested) strays outlive a crash of their child, as they would without a supervisor. A
program that clears its environment (as the embedded server does on purpose: it serves others too) is nobody's stray.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from fencepost.worker.board import boot_ns

log = logging.getLogger("fencepost.supervisor")

MARK = "FENCEPOST_LIFE"
"""The variable that says which life of which child a process belongs to. It holds nothing secret."""

_PR_SET_CHILD_SUBREAPER = 36


def new_mark(number: int) -> str:
    """A value that no other child, of no supervisor on this machine, has."""
    return f"{os.getpid()}-{number}-{boot_ns()}"


def marked_environment(mark: str) -> dict[str, str]:
    """Our environment, handed on unread, with the mark."""
    return {**os.environ, MARK: mark}


def become_subreaper() -> bool:
    """Ask the kernel for escaped grandchildren; whether it agreed."""
    if not sys.platform.startswith("linux"):  # pragma: no cover - untested
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def collect(ours: Collection[int], dead_marks: Collection[str] = ()) -> int:
    """Collect orphans that have ended and kill those that belonged to a dead child; how many of these are left.

    ``ours``: pids that their own `Child` waits for. Whoever ends leaves its own children to us: none were left only when
    a look has found nobody to collect.
    """
    while True:
        left = ended = 0
        for pid in _children_of_us():
            if pid in ours:
                continue
            with contextlib.suppress(OSError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    ended += 1
                elif dead_marks and _is_exiting(pid):  # its mark cannot be read any more, and its children come next
                    left += 1
                elif _mark_of(pid) in dead_marks:
                    log.warning("killed process %d, which a dead worker process had left behind", pid)
                    os.kill(pid, signal.SIGKILL)
                    left += 1
        if not ended:
            return left


def _children_of_us() -> list[int]:
    """Our children by the kernel's list, adopted ones included. The list may miss some while others exit: ask again."""
    me = os.getpid()
    try:
        return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]
    except OSError:  # not Linux, or a kernel without this file
        return []


def _is_exiting(pid: int) -> bool:
    """Whether its memory is gone already; who lives with an empty environment still has a command line."""
    return not Path(f"/proc/{pid}/cmdline").read_bytes()


def _mark_of(pid: int) -> str | None:
    prefix = f"{MARK}=".encode()
    for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None
