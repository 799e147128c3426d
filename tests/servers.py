"""PostgreSQL servers of the tests' own: started from binaries by fencepost.embedded, never a server of the machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fencepost.embedded import binaries, guardian
from fencepost.embedded.server import EmbeddedServer
from fencepost.sql.catalog import Catalog
from fencepost.store import schema
from waiting import eventually

SHARED = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}
"""For servers that nobody kills."""

OWN = {"fsync": "off", "max_connections": "60"}
"""For servers that are killed: each commit has reached the operating system, which survives the server."""


_MEMORY = Path("/dev/shm")  # noqa: S108 - only folders with names of their own are made in it
_ROOM = 4 << 30


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """For a server's data: in memory where there is room for it, since most tests begin with a database of their own."""
    in_memory = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM
    return tempfile.TemporaryDirectory(prefix="fpt-", dir=_MEMORY if in_memory else None, ignore_cleanup_errors=True)


class Server:
    """One server in a folder of its own."""

    def __init__(self, folder: Path, bindir: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.embedded = EmbeddedServer(folder, bindir=bindir, settings=SHARED if settings is None else settings)
        self.folder = folder
        self._made = 0

    def __repr__(self) -> str:
        return f"Server({self.dsn!r})"

    @property
    def dsn(self) -> str:
        """Of the database ``fencepost``."""
        return self.embedded.dsn()

    @property
    def major(self) -> int:
        return self.embedded.status().major or 0

    def start(self) -> None:
        self.embedded.start()

    def stop(self, mode: str = "fast") -> None:
        """``fast`` ends transactions; ``immediate`` leaves recovery to the next start."""
        if mode == "immediate":
            self._end_by(signal.SIGQUIT)
        self.embedded.stop()

    def kill(self) -> None:
        """SIGKILL to the postmaster, as the kernel does when memory is short. Its children end by themselves."""
        children = _children(self.postmaster)
        self._end_by(signal.SIGKILL)
        eventually(lambda: all(guardian.is_gone(pid) for pid in children), within=20)

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def release(self) -> None:
        """Stop it for good, in whatever state it is."""
        if self.embedded.status().running:
            self.thaw()
        self.embedded.stop()

    @property
    def postmaster(self) -> int:
        pid = guardian.living_postmaster(self.folder / "data")
        assert pid, f"the server in {self.folder} does not run"
        return pid

    def pids(self) -> list[int]:
        """The server's processes, the postmaster first."""
        main = self.postmaster
        return [main, *sorted(_children(main))]

    def freeze(self) -> None:
        """Stop all its processes as a hung machine would; connections stay open and nothing answers."""
        main = self.postmaster
        os.kill(main, signal.SIGSTOP)  # first: it must not start new children meanwhile
        for pid in _children(main):
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in reversed(self.pids()):
            _signal(pid, signal.SIGCONT)

    def connect(self, dbname: str = "fencepost", **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.embedded.dsn(dbname), autocommit=True, **options)

    def create(self, template: str | None = None) -> str:
        """A new database; its name."""
        self._made += 1
        name = f"test_{os.getpid()}_{self._made}"
        with self.connect("postgres") as conn:
            quick = " strategy file_copy" if conn.info.server_version >= 150000 else ""  # half the time, without fsync
            conn.execute(f"create database {name}{quick}" + (f" template {template}" if template else ""))
        return name

    def drop(self, name: str) -> None:
        with self.connect("postgres") as conn:
            conn.execute(f"drop database if exists {name} with (force)")

    def dsn_of(self, name: str) -> str:
        return self.embedded.dsn(name)

    def _end_by(self, how: signal.Signals) -> None:
        pid = self.postmaster
        os.kill(pid, how)
        eventually(lambda: guardian.is_gone(pid), within=20)


class Database:
    """One database of one test."""

    def __init__(self, dsn: str, catalog: Catalog, server: Server) -> None:
        self.dsn, self.catalog, self.server = dsn, catalog, server

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True, **options)


def _children(pid: int) -> set[int]:
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


@contextmanager
def server(
    bindir: Path | None = None, settings: Mapping[str, str] | None = None, copy_of: Path | None = None
) -> Iterator[Server]:
    """A server in a temporary folder, stopped and removed at the end; with the data of another one, if wanted."""
    with temporary_folder() as folder:
        root = Path(folder) / "pg"
        if copy_of is not None:
            root.mkdir()
            (root / "start.lock").touch()  # as a folder that an embedded server has used
            shutil.copytree(copy_of, root / "data")
        made = Server(root, bindir, settings)
        made.start()
        try:
            yield made
        finally:
            made.release()


@contextmanager
def standby_of(primary: Server, bindir: Path | None = None) -> Iterator[Server]:
    """A streaming standby, read-only until it is promoted."""
    asked = conninfo_to_dict(primary.dsn)
    programs = binaries.find(bindir, major=primary.major) if bindir is None else binaries.find(bindir)
    with temporary_folder() as folder:
        root = Path(folder) / "pg"
        root.mkdir()
        (root / "start.lock").touch()
        subprocess.run(
            [
                str(programs.bindir / "pg_basebackup"),
                f"--host={asked['host']}",
                f"--port={asked['port']}",
                f"--username={asked['user']}",
                f"--pgdata={root / 'data'}",
                "--write-recovery-conf",
                "--wal-method=stream",
                "--checkpoint=fast",
            ],
            check=True,
            capture_output=True,
            env=binaries.tool_environment(),
        )
        made = Server(root, programs.bindir, OWN)
        made.start()
        try:
            yield made
        finally:
            made.release()


def migrated(made: Server, catalog: Catalog | None = None) -> str:
    """The name of a migrated database that others are copied from."""
    name = made.create()
    schema.migrate(made.dsn_of(name), catalog or Catalog())
    return name


def versions() -> list[binaries.Binaries]:
    """One PostgreSQL of each supported major version that this machine has, oldest first.

    ``make servers`` installs those that Debian and the wheel do not have. ``FENCEPOST_TEST_PG_BINS`` may name more folders,
    separated as in PATH. ``FENCEPOST_TEST_NEEDS=versions`` makes it an error that one is missing (CI).
    """
    named = [Path(word) for word in os.environ.get("FENCEPOST_TEST_PG_BINS", "").split(os.pathsep) if word]
    named += Path(sys.prefix, "servers").glob("*/bin")
    found = {one.major: one for one in reversed(binaries.find_all())}
    found |= {one.major: one for one in (binaries.find(bindir) for bindir in named)}
    if "versions" in os.environ.get("FENCEPOST_TEST_NEEDS", "").split(","):
        missing = set(range(binaries.OLDEST, binaries.NEWEST + 1)) - set(found)
        assert not missing, f"FENCEPOST_TEST_NEEDS names versions; missing: {sorted(missing)}"
    return [found[major] for major in sorted(found)]
