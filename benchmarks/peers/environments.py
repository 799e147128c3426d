"""An environment of its own for each peer, in ``.venv/peers``: made once for a set of packages, then kept."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from peers.facts import ADAPTERS, Peer

HOME = Path(__file__).parents[2] / ".venv" / "peers"
INSIDE = Path(__file__).parent / "inside"
_WITHIN_S = 600.0
_SAID = 240


class NotInstalledError(Exception):
    """A peer cannot be had on this machine; the message is the reason."""


def command(peer: Peer, home: Path | None = None) -> list[str]:
    """The words that run the peer's adapter in its environment; a command of ``inside/run`` follows."""
    at = home or HOME / peer.name
    adapter = str(ADAPTERS / peer.adapter)
    if peer.tool == "npm":
        return [str(at / "node_modules" / ".bin" / "node"), str(INSIDE / "run.mjs"), adapter]
    return [str(at / "bin" / "python"), "-W", "ignore", str(INSIDE / "run.py"), adapter]


def install(peer: Peer, *, python: str | None = None, home: Path | None = None) -> None:
    """Its environment is there, with these very packages; ``python``: the one to make it with.

    Raises:
        NotInstalledError: it cannot be; nothing half made is left.
    """
    at = home or HOME / peer.name
    done = at / "installed.json"
    wanted = json.dumps([peer.tool, *peer.packages])
    if done.exists() and done.read_text() == wanted:
        return
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    try:
        _npm(peer, at) if peer.tool == "npm" else _pip(peer, at, python)
    except BaseException:
        shutil.rmtree(at, ignore_errors=True)
        raise
    done.write_text(wanted)


def _pip(peer: Peer, at: Path, python: str | None) -> None:
    _run([python_for(peer.python, python), "-m", "venv", str(at)])
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    _run([str(at / "bin" / "python"), "-m", "pip", "install", *quiet, *peer.packages])


def _npm(peer: Peer, at: Path) -> None:
    if shutil.which("npm") is None:
        raise NotInstalledError("npm is not there")
    (at / "package.json").write_text('{"private": true}\n')
    _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(at), *peer.packages])


def python_for(least: tuple[int, int], named: str | None = None) -> str:
    """A Python of at least this version: our own, the named one, or one of the machine.

    Raises:
        NotInstalledError: there is none.
    """
    if sys.version_info[:2] >= least:
        return sys.executable
    for name in filter(None, (named, "python3.14", "python3.13", "python3.12")):
        path = shutil.which(name)
        if path and _version(path) >= least:
            return path
    wanted = ".".join(map(str, least))
    raise NotInstalledError(f"it needs Python {wanted} or newer, and none was found (--python names one)")


def _version(python: str) -> tuple[int, int]:
    asked = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    found = re.fullmatch(r"(\d+) (\d+)\s*", asked.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _run(words: Sequence[str]) -> None:
    try:
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=_WITHIN_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"{Path(words[0]).name} did not end within {_WITHIN_S:.0f} s") from None
    if ran.returncode:
        raise NotInstalledError(f"{Path(words[0]).name} failed: {said(ran.stdout + ran.stderr)}")


def said(text: str) -> str:
    """The last line that says something, without addresses: what a reader needs of a program's last words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines
    return re.sub(r"\w+://\S+", "(address)", errors[-1])[:_SAID] if errors else "it said nothing"
