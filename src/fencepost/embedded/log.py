"""Read what the server and the tools said."""

from __future__ import annotations

import contextlib
from pathlib import Path


def tail(path: Path, lines: int) -> str:
    """The last lines of a log; empty without one."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - lines * 1000))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def telling(text: str) -> str:
    """The line of a tool's output that says what was wrong."""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in said if "FATAL" in line or "rror" in line]
    return (wrong or said or ["it said nothing"])[-1]


def size(path: Path) -> int:
    """How long the log is, in bytes; 0 without one."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def backends_linger(path: Path, since: int) -> bool:
    """Did a start fail, after byte ``since``, only because processes of a killed server are still about to end?"""
    with contextlib.suppress(OSError), path.open("rb") as log:
        log.seek(since)
        return b"pre-existing shared memory block" in log.read()
    return False
