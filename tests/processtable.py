"""What the system says of a process, read from /proc."""

from __future__ import annotations

from pathlib import Path


def _fields(pid: int) -> list[str]:
    """From the state on: what comes before it is the program's name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def parent_of(pid: int) -> int:
    """Which process it belongs to. Raises OSError for one that is gone."""
    return int(_fields(pid)[1])


def is_zombie(pid: int) -> bool:
    """Whether it has ended and was not collected; False for one that is gone."""
    try:
        return _fields(pid)[0] == "Z"
    except OSError:
        return False


def is_alive(pid: int) -> bool:
    """Whether it is there and has not ended."""
    try:
        return _fields(pid)[0] != "Z"
    except OSError:
        return False
