"""The files of the project, as a clone has them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[2]
_LEFT_BY_TOOLS = {"__pycache__", "build", "dist", "node_modules"}


@cache
def files() -> tuple[Path, ...]:
    """Every file that belongs to the project: what git knows or would take; without git, all but what tools leave."""
    try:
        asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        told = subprocess.run(asked, cwd=TOP, capture_output=True, text=True, check=True)
        names = [TOP / line for line in told.stdout.splitlines()]
    except (OSError, subprocess.CalledProcessError):
        names = [path for path in TOP.rglob("*") if not _left_by_tools(path.relative_to(TOP))]
    return tuple(sorted(path for path in names if path.is_file()))


def _left_by_tools(path: Path) -> bool:
    return any(
        part in _LEFT_BY_TOOLS or (part.startswith(".") and part not in {".ci", ".gitignore"}) for part in path.parts
    )


def texts(under: str = "", ending: str = "") -> dict[str, str]:
    """The text files below a folder, by their path from the top."""
    found = {}
    for path in files():
        name = path.relative_to(TOP).as_posix()
        if name.startswith(under) and name.endswith(ending):
            try:
                found[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return found


def code_lines(text: str) -> int:
    """Lines that are neither empty nor a comment."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))
