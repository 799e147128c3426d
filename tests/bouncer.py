"""A real PgBouncer in transaction mode, in front of a server of the tests' own; where none is installed, `pooler.Pooler`.

``FENCEPOST_TEST_NEEDS=pgbouncer`` makes its absence an error (CI): a test that quietly takes the substitute proves less.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.embedded import account
from pooler import Pooler
from waiting import eventually

FOUND = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


class AnyPooler(Protocol):
    dsn: str


class PgBouncer:
    """One process on a port of its own. ``dsn`` is what clients use."""

    def __init__(self, dsn: str, folder: Path, *, server_connections: int, mode: str = "transaction") -> None:
        assert FOUND is not None
        asked = conninfo_to_dict(dsn)
        user = str(asked["user"])
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (folder / "users").write_text(f'"{user}" ""\n')
        self._log = folder / "log"
        self._config = folder / "pgbouncer.ini"
        self._config.write_text(
            "[databases]\n"
            f"{asked['dbname']} = host={asked['host']} port={asked.get('port') or 5432} user={user}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\nauth_file = {folder / 'users'}\n"
            f"pool_mode = {mode}\ndefault_pool_size = {server_connections}\nmax_client_conn = 500\n"
            "ignore_startup_parameters = extra_float_digits,options\nserver_login_retry = 0.2\nquery_wait_timeout = 30\n"
            f"logfile = {self._log}\n"
        )
        self.dsn = make_conninfo("", host="127.0.0.1", port=self.port, user=user, dbname=asked["dbname"])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        who = account.choose(self._config.parent, self._config.parent / "none")
        assert FOUND is not None
        self._process = subprocess.Popen(
            [*who.prefix, FOUND, "-q", str(self._config)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        eventually(self._answers, within=20)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT lets transactions end; SIGTERM and SIGKILL do not."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(20)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        try:
            with psycopg.connect(self.dsn, connect_timeout=2, autocommit=True) as conn:
                conn.execute("select 1")
        except psycopg.OperationalError:
            return False
        return True


def needed() -> bool:
    return "pgbouncer" in os.environ.get("FENCEPOST_TEST_NEEDS", "").split(",")


@contextmanager
def transaction_pooler(dsn: str, *, server_connections: int = 4) -> Iterator[AnyPooler]:
    """PgBouncer if there is one, else the substitute."""
    if FOUND is None:
        assert not needed(), "FENCEPOST_TEST_NEEDS names pgbouncer, and there is none"
        made = Pooler(dsn, server_connections=server_connections)
        try:
            yield made
        finally:
            made.close()
        return
    with tempfile.TemporaryDirectory(prefix="fpb-") as folder:
        real = PgBouncer(dsn, Path(folder), server_connections=server_connections)
        try:
            yield real
        finally:
            real.stop(signal.SIGKILL)
