"""What the system says of a process, read from /proc."""

from __future__ import annotations

import os
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


def of_folder(folder: Path) -> dict[int, str]:
    """Living processes, but this one, that have the folder's name in their environment or command: pid to command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                told = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if is_alive(int(entry.name)) and any(str(folder).encode() in one for one in told):
                found[int(entry.name)] = told[0].replace(b"\0", b" ").decode(errors="replace")
    return found
