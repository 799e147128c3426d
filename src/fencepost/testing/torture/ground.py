"""The database that a torture stands on, and the doors through which everybody reaches it.

`OwnGround` is a primary of our own, embedded, and a standby while a failover needs one. `GivenGround` is somebody's
database by its DSN: its server is not ours to stop.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.embedded import binaries, guardian
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import FencepostError, UsageError
from fencepost.testing.proxy import Proxy
from fencepost.testing.torture.disk import SmallDisk, is_possible, mount_in_private
from fencepost.testing.torture.settings import LOG_SCHEMA, SCHEMA

_SETTINGS = {
    "fsync": "off",  # processes die here, not machines: what a process wrote stays written
    "full_page_writes": "off",
    "max_connections": "90",
    "max_wal_size": "256MB",  # the servers may lie in memory
    "autovacuum_naptime": "5s",
}
_WITHIN_S = 30.0
_CLOCKS = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")

_FOREIGN = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', %s, %s)
   AND n.nspname NOT LIKE 'pg\\_toast%%' AND n.nspname NOT LIKE 'pg\\_temp%%'"""
_CAUGHT_UP = "SELECT coalesce(bool_or(flush_lsn >= %s::pg_lsn), false) FROM pg_stat_replication"


class Door:
    """One program's way to the database: a proxy for each server that may be the primary."""

    def __init__(self, targets: Sequence[str]) -> None:
        self.proxies = [Proxy(target) for target in targets]
        asked = conninfo_to_dict(targets[0])
        hosts = ",".join("127.0.0.1" for _ in targets)
        ports = ",".join(str(proxy.port) for proxy in self.proxies)
        wanted = {"user": asked.get("user"), "dbname": asked.get("dbname"), "password": asked.get("password")}
        if len(targets) > 1:
            wanted["target_session_attrs"] = "read-write"
        self.dsn = make_conninfo(
            "", host=hosts, port=ports, sslmode="disable", **{k: v for k, v in wanted.items() if v}
        )

    def each(self, act: Callable[[Proxy], object]) -> None:
        """Do it to every proxy."""
        for proxy in self.proxies:
            act(proxy)

    def close(self) -> None:
        """End the proxies and all that goes through them."""
        self.each(lambda proxy: proxy.close())


class Ground(Protocol):
    """What the story and the faults need of a database."""

    is_ours: bool

    def start(self) -> None:
        """Bring it up."""

    def admin(self) -> psycopg.Connection[Any]:
        """A connection of our own to whoever is the primary now, past all doors. The caller closes it."""

    def door(self) -> Door:
        """A new way in."""

    def stop(self) -> None:
        """End what is ours."""


class GivenGround:
    """A database that is there. Raises UsageError if other tables live in it, unless that is wanted."""

    is_ours = False

    def __init__(self, dsn: str, *, shared: bool = False) -> None:
        self._dsn, self._shared = dsn, shared

    def start(self) -> None:
        """See `Ground`."""
        with self.admin() as conn:
            row = conn.execute(_FOREIGN, [SCHEMA, LOG_SCHEMA]).fetchone()
        if row is not None and row[0] and not self._shared:
            raise UsageError(
                f"the database of --dsn has {row[0]} other tables; name an empty one, or say --shared if their users "
                "may lose connections and wait for locks"
            )

    def admin(self) -> psycopg.Connection[Any]:
        """See `Ground`."""
        return psycopg.connect(self._dsn, autocommit=True, connect_timeout=5, application_name="torture")

    def door(self) -> Door:
        """See `Ground`."""
        return Door([self._dsn])

    def stop(self) -> None:
        """Take away what the torture made. Best effort: the server may be away."""
        with contextlib.suppress(psycopg.Error), self.admin() as conn:
            conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; DROP SCHEMA IF EXISTS {LOG_SCHEMA} CASCADE".encode())


class OwnGround:
    """Two places for a server; one of them has the primary, the other a standby while a failover is made."""

    is_ours = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = _clock_library()
        self._offset = folder / "clock"
        self.has_disk = is_possible()
        """Whether the disk under the servers can be full."""
        self._disk: SmallDisk | None = None
        self._bindir: Path | None = None
        self._nodes: list[EmbeddedServer] = []
        self._current = 0

    @property
    def has_clock(self) -> bool:
        """Whether the servers' clock can be set."""
        return self._clock is not None

    def start(self) -> None:
        """See `Ground`."""
        self._bindir = self._programs()
        if self.has_disk:
            mount_in_private()
            self._disk = SmallDisk(self._folder / "disk")
        self._nodes = [self._node(number) for number in (0, 1)]
        self._nodes[self._current].start()

    def admin(self) -> psycopg.Connection[Any]:
        """See `Ground`."""
        return psycopg.connect(
            self._nodes[self._current].dsn(), autocommit=True, connect_timeout=5, application_name="torture"
        )

    def door(self) -> Door:
        """See `Ground`."""
        return Door([node.dsn() for node in self._nodes])

    def stop(self) -> None:
        """See `Ground`."""
        for number, node in enumerate(self._nodes):
            with contextlib.suppress(FencepostError):
                node.stop()
            if self._disk is not None:  # what the server said outlives it
                with contextlib.suppress(OSError):
                    shutil.copyfile(node.layout.log, self._folder / f"node{number}.log")
        if self._disk is not None:
            self._disk.close()
            self._disk = None

    # ---------------------------------------------------------------------------------------------------- what happens

    def restart(self, how: signal.Signals | None) -> None:
        """``None``: a fast shutdown; SIGQUIT: an immediate one; SIGKILL: the postmaster is killed."""
        node = self._nodes[self._current]
        if how is not None:
            self._end(node, how)
        node.stop()
        node.start()

    def set_clock(self, seconds: float) -> None:
        """How far the servers' clock is ahead of the machine's from now on; they notice within a second."""
        part = self._offset.with_suffix(".part")
        part.write_text(f"{seconds:+.1f}\n")
        part.replace(self._offset)

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Inside, the servers' disk has no room. A server that could not live with that is started afterwards."""
        assert self._disk is not None
        try:
            self._disk.fill()
            yield
        finally:
            self._disk.empty()
            node = self._nodes[self._current]
            if guardian.living_postmaster(node.layout.data) is None:
                node.stop()
                node.start()

    def fail_over(self, hush: Callable[[], None] | None = None, forget: Callable[[], None] | None = None) -> float:
        """A standby is made and promoted when the primary has died at once; seconds without a primary.

        Replication is synchronous for the last moments: what was acknowledged is on the standby. With ``forget`` it is
        asynchronous: after ``hush`` the standby gets all there is, and of what happens while ``forget`` lasts, nothing.
        """
        old, new = self._nodes[self._current], self._nodes[1 - self._current]
        link = Proxy(old.dsn())
        try:
            self._make_standby(old, new, link)
            with self.admin() as conn:
                if hush is not None:
                    hush()
                else:
                    conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                    conn.execute("SELECT pg_reload_conf()")
                    time.sleep(0.5)  # every session has read its configuration by then
                self._wait(lambda: self._has_all(conn), "the standby does not catch up")
            if forget is not None:
                link.hold()
                forget()
            began = time.monotonic()
            self._end(old, signal.SIGQUIT)
            link.cut()
        except BaseException:
            new.stop()
            raise
        finally:
            link.close()
        self._promote(new)
        took = time.monotonic() - began
        self._current = 1 - self._current
        old.stop()
        shutil.rmtree(old.layout.root, ignore_errors=True)
        return took

    def _promote(self, node: EmbeddedServer) -> None:
        with psycopg.connect(node.dsn(), autocommit=True, connect_timeout=5) as conn:
            conn.execute("SELECT pg_promote(wait_seconds => 30)")
            conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
            conn.execute("ALTER SYSTEM RESET primary_conninfo")
            conn.execute("SELECT pg_reload_conf()")

    def _has_all(self, conn: psycopg.Connection[Any]) -> bool:
        row = conn.execute("SELECT pg_current_wal_lsn()").fetchone()
        caught = conn.execute(_CAUGHT_UP, row).fetchone()
        return bool(caught and caught[0])

    def _make_standby(self, primary: EmbeddedServer, node: EmbeddedServer, link: Proxy) -> None:
        root = node.layout.root
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        (root / "start.lock").touch()  # as a folder that an embedded server has used
        asked = conninfo_to_dict(primary.dsn())
        made_by = primary.status().major
        program = binaries.find(self._bindir, major=None if self._bindir else made_by).bindir / "pg_basebackup"
        copied = subprocess.run(
            [
                *(str(program), f"--host={asked['host']}", f"--port={asked['port']}", f"--username={asked['user']}"),
                *(f"--pgdata={root / 'data'}", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"),
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            env=binaries.tool_environment(),
        )
        if copied.returncode:
            raise FencepostError(f"the standby cannot be made: {copied.stderr.strip()[-300:]}")
        with (root / "data" / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{link.dsn}'\n")
        node.start()

    def _end(self, node: EmbeddedServer, how: signal.Signals) -> None:
        pid = guardian.living_postmaster(node.layout.data)
        if pid is None:
            return
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(pid, how)
        self._wait(lambda: all(map(guardian.is_gone, [pid, *map(int, words)])), "the server does not end")

    def _wait(self, done: Callable[[], bool], why: str) -> None:
        ends = time.monotonic() + _WITHIN_S
        while not done():
            if time.monotonic() > ends:
                raise FencepostError(why)
            time.sleep(0.02)

    def _node(self, number: int) -> EmbeddedServer:
        folder = self._folder if self._disk is None else self._folder / "disk"
        return EmbeddedServer(folder / f"node{number}", bindir=self._bindir, settings=_SETTINGS)

    def _programs(self) -> Path | None:
        """A folder of PostgreSQL's programs in which ``postgres`` has a clock of ours; None without a library for it."""
        if self._clock is None:
            return None
        true = binaries.find().bindir
        folder = self._folder / "bin"
        folder.mkdir(parents=True)
        for program in true.iterdir():
            if program.name != "postgres":
                (folder / program.name).symlink_to(program)
        self.set_clock(0)
        words = f"LD_PRELOAD='{self._clock}' FAKETIME_TIMESTAMP_FILE='{self._offset}' FAKETIME_CACHE_DURATION=1"
        script = folder / "postgres"
        script.write_text(f"#!/bin/sh\nexport {words} DONT_FAKE_MONOTONIC=1\nexec '{true / 'postgres'}' \"$@\"\n")
        script.chmod(0o755)
        return folder


def _clock_library() -> Path | None:
    found = sorted(path for pattern in _CLOCKS for path in Path("/").glob(pattern.lstrip("/")))
    return found[0] if found else None
