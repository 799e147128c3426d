"""Where peers work: a database or a broker that is filled anew for every reading, and a gate in front of it.

A worker that is started behind the gate does all that it does at its start and then waits, with its first claim sent. Thus
the clock has the whole of the drain, the first claim included, and nothing else, and is the same for every system.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import psycopg
from psycopg import sql as words
from psycopg.conninfo import conninfo_to_dict

from fencepost.bench.ground import Ground
from peers.facts import Peer

_NOW = "peers_now"
_SETTLED_S = 0.5
_WITHIN_S = 60.0
_BACKLOG = "bench:backlog"
_GATED = "bench:gated"

Fill = Callable[[str], None]
"""Has the peer install itself at an address, and enqueue what shall be there."""


class Place(Protocol):
    """What holds a peer's jobs."""

    dsn: str
    pid: int | None

    def prepare(self, peer: Peer, jobs: int, fill: Fill) -> None:
        """The peer's tables are new, with so many jobs."""

    def gate(self, peer: Peer) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """No job can be claimed in here; the function opens the gate once the worker waits for it."""

    def left(self, peer: Peer) -> int | None:
        """Jobs that are not finished; None where only the handlers know."""


class Databases:
    """On the server of the benchmark; one database is the peer's, copied from one that was filled once."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.pid = ground.postmaster
        self.dsn = address(ground.dsn, _NOW)

    def prepare(self, peer: Peer, jobs: int, fill: Fill) -> None:
        """Copies, and has a checkpoint behind it: no reading pays for the one before it."""
        kept = f"peers_{peer.name}_{jobs}"
        with self._ground.connect() as conn:
            self._drop(conn, _NOW)
            if not conn.execute("SELECT FROM pg_database WHERE datname = %s", [kept]).fetchall():
                self._fill(conn, kept, fill)
            conn.execute(words.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(words.Identifier, (_NOW, kept))))
            conn.execute("CHECKPOINT")

    def _fill(self, conn: psycopg.Connection[Any], kept: str, fill: Fill) -> None:
        half = f"{kept}_half"
        self._drop(conn, half)
        conn.execute(words.SQL("CREATE DATABASE {}").format(words.Identifier(half)))
        there = address(self._ground.dsn, half)
        fill(there)
        with psycopg.connect(there, autocommit=True) as inside:
            inside.execute("VACUUM ANALYZE")
        conn.execute(words.SQL("ALTER DATABASE {} RENAME TO {}").format(*map(words.Identifier, (half, kept))))

    @staticmethod
    def _drop(conn: psycopg.Connection[Any], name: str) -> None:
        conn.execute(words.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(words.Identifier(name)))

    @contextlib.contextmanager
    def gate(self, peer: Peer) -> Iterator[Callable[[], None]]:
        """A lock on the peer's tables."""
        with locked(self.dsn, peer.gate) as release:
            yield release

    def left(self, peer: Peer) -> int | None:
        """From the peer's own tables."""
        if peer.left is None:
            return None
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            row = conn.execute(peer.left.encode()).fetchone()
            return int(row[0]) if row else None


@contextlib.contextmanager
def locked(dsn: str, tables: tuple[str, ...]) -> Iterator[Callable[[], None]]:
    """These tables are locked until the function is called, which waits until somebody waits for them and no more come.

    Without tables there is no gate.
    """
    if not tables:
        yield lambda: None
        return
    with psycopg.connect(dsn) as conn:
        names = words.SQL(", ").join(words.Identifier(*table.split(".")) for table in tables)
        conn.execute(words.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))

        def release() -> None:
            _await_waiting(dsn)
            conn.commit()

        yield release
        conn.rollback()


def _await_waiting(dsn: str) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    until = time.monotonic() + _WITHIN_S
    seen, since = 0, time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as conn:
        while True:
            row = conn.execute(query).fetchone()
            waiting = int(row[0]) if row else 0
            now = time.monotonic()
            if waiting != seen:
                seen, since = waiting, now
            if seen and now - since > _SETTLED_S:
                return
            if now > until:
                raise TimeoutError(f"no worker asked for a job within {_WITHIN_S:.0f} s")
            time.sleep(0.02)


class Broker:
    """A Redis of our own in a folder of its own, on a socket, its file synced once a second."""

    def __init__(self, socket: Path, pid: int) -> None:
        self._socket = socket
        self.pid: int | None = pid
        self.dsn = f"redis+socket://{socket}"
        self._kept: set[tuple[str, int]] = set()

    def ask(self, *said: str) -> str:
        """One command; its answer."""
        ran = subprocess.run(
            ["redis-cli", "-s", str(self._socket), *said], capture_output=True, text=True, timeout=30, check=True
        )
        return ran.stdout.strip()

    @property
    def version(self) -> str:
        """Of the server."""
        return next(
            (
                line.partition(":")[2]
                for line in self.ask("INFO", "server").splitlines()
                if line.startswith("redis_version")
            ),
            "?",
        )

    def prepare(self, peer: Peer, jobs: int, fill: Fill) -> None:
        """The jobs lie beside the queue: opening the gate moves them all at once."""
        kept = f"{_BACKLOG}:{jobs}"
        if (peer.name, jobs) not in self._kept:
            fill(self.dsn)
            if jobs:
                self.ask("RENAME", "celery", kept)
            self._kept.add((peer.name, jobs))
        self.ask("DEL", "celery", "unacked", "unacked_index", "unacked_mutex", _GATED)
        if jobs:
            self.ask("COPY", kept, _GATED)

    @contextlib.contextmanager
    def gate(self, peer: Peer) -> Iterator[Callable[[], None]]:
        """The queue is empty until the worker listens and the backlog gets its name."""

        def release() -> None:
            until = time.monotonic() + _WITHIN_S
            while "cmd=brpop" not in (listening := self.ask("CLIENT", "LIST")) or "flags=b" not in listening:
                if time.monotonic() > until:
                    raise TimeoutError(f"no worker of {peer.name} asked for a job within {_WITHIN_S:.0f} s")
                time.sleep(0.05)
            time.sleep(_SETTLED_S)
            self.ask("RENAME", _GATED, "celery")

        yield release

    def left(self, peer: Peer) -> int | None:  # noqa: ARG002 - as the protocol has it
        """A broker forgets a job before it runs."""
        return None


@contextlib.contextmanager
def broker() -> Iterator[Broker | None]:
    """A Redis; None where there is none on this machine."""
    if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fencepost-redis-") as folder:
        socket = Path(folder) / "redis.sock"
        program = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", folder, "--save", ""]
        process = subprocess.Popen(
            [*program, "--appendonly", "yes", "--appendfsync", "everysec"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + 20
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("redis-server did not start within 20 s")
                time.sleep(0.02)
            yield Broker(socket, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def address(dsn: str, database: str) -> str:
    """The same server, another database, as a URL: the form that all drivers read, a socket's folder included."""
    parts = conninfo_to_dict(dsn)
    user, host = (quote(str(parts.get(name) or ""), safe="") for name in ("user", "host"))
    return f"postgresql://{user}@{host}:{parts.get('port') or 5432}/{database}"
