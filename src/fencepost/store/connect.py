"""How our own connections are opened, and the one seam through which they wait.

psycopg gives each wait for the server to `Connection.wait`. There a look at the clock ends calls in time, without a
watchdog thread, and without a cancel request: a cancelled COMMIT that waits for a standby answers success, and a frozen
server answers nothing. The socket is shut instead; what happened on the server is then unknown, which is what the three
answers of the fence are for (accepted, already, lost).

Which hosts there are and which of them will do (`target_session_attrs`) is the DSN's business.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import waiting
from psycopg.conninfo import conninfo_to_dict

from fencepost.errors import OutageError, UsageError

_LEAST_CONNECT_S = 2  # libpq knows no shorter one
_CONNECT_S = 10.0
_SILENCE_S = 60.0
_PROBES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_TICK_S = 5.0
_GLANCE_S = 0.5


class TooLate(OutageError):  # noqa: N818 - says what happened, as LeaseLost does
    """The call's deadline passed and the socket was closed. Whether the call took effect is unknown."""


class DeadlineConnection(psycopg.Connection[Any]):
    """A connection whose waits end: at ``deadline_s`` seconds each (None: never), by closing the socket.

    ``on_wait`` hears every five seconds of one wait how long it has lasted, for work that may take long. ``meanwhile`` is
    called once, as soon as a statement has been sent: work to do while the server does its own. It must not raise.

    No wait is one long system call: a signal that arrives between Python's last look and the call interrupts nothing,
    and its handler would run at the deadline only.
    """

    deadline_s: float | None = None
    on_wait: Callable[[float], None] | None = None
    meanwhile: Callable[[], None] | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Drive psycopg's generator. Never sends a cancel, whatever interrupts it."""
        if timeout is not None:  # a wait that may end with nothing (LISTEN) has its own bound
            return super().wait(gen, interval=interval, timeout=timeout)
        try:
            ready = next(gen)
            begun = time.monotonic()
            if self.meanwhile is not None and ready == waiting.WAIT_R:  # all is sent: the server works
                work, self.meanwhile = self.meanwhile, None
                work()
            ends = math.inf if self.deadline_s is None else begun + self.deadline_s
            ticks = begun + _TICK_S
            descriptor = self.pgconn.socket
            poll = select.poll()
            while True:
                poll.register(descriptor, _mask(ready))
                events = poll.poll(max(0.0, min(_GLANCE_S, ends - time.monotonic())) * 1000)
                now = time.monotonic()
                if events:
                    ready = gen.send(_seen(events[0][1]))
                elif now >= ends:
                    raise self._too_late()
                elif self.on_wait is not None and now >= ticks:
                    ticks += _TICK_S
                    self.on_wait(now - begun)
        except StopIteration as end:
            return end.value

    def _too_late(self) -> TooLate:
        self.sever()
        self.close()
        return TooLate(
            f"the database gave no answer within {self.deadline_s:g} s; whether the call took effect is unknown"
        )

    def sever(self) -> None:
        """Shut the stream below libpq and the driver; from any thread. Wakes whoever waits on it, sends nothing."""
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as sock:
            sock.shutdown(socket.SHUT_RDWR)

    @property
    def is_direct(self) -> bool | None:
        """Whether the server process at the other end is the one that greeted us; None: not looked yet."""
        return self._direct

    _direct: bool | None = None

    def note_backend(self, pid: int) -> None:
        """Compare the server's own word for its process with its greeting: a pooler greets with a number of its own."""
        self._direct = pid == self.info.backend_pid


def _mask(ready: int) -> int:
    return (select.POLLIN if ready & waiting.WAIT_R else 0) | (select.POLLOUT if ready & waiting.WAIT_W else 0)


def _seen(events: int) -> waiting.Ready:
    """Anything but "writable" (hang-up, error) is for the reader: the server's last words, or the end of file."""
    seen = (waiting.READY_R if events & ~select.POLLOUT else 0) | (waiting.READY_W if events & select.POLLOUT else 0)
    return waiting.Ready(seen)


def open_connection(dsn: str, *, name: str, deadline_s: float | None = None) -> DeadlineConnection:
    """Connect, in autocommit and with nothing prepared. ``name`` is shown as ``application_name``.

    The attempt ends within the deadline (none: 10 s; at least 2 s a host) unless the DSN has a ``connect_timeout``; its
    socket is probed from half a minute of silence on, for waits that have no deadline.
    Looking up a host's name is libpq's and the system's, and has no deadline of ours. Raises UsageError for a DSN that
    libpq cannot read (it is not shown), psycopg.OperationalError when there is no connection to be had.
    """
    extra = _parameters(dsn, name, deadline_s)
    conn = DeadlineConnection.connect(dsn, autocommit=True, prepare_threshold=None, **extra)
    conn.deadline_s = deadline_s
    return conn


def _parameters(dsn: str, name: str, deadline_s: float | None) -> dict[str, Any]:
    given = parse(dsn)
    extra: dict[str, Any] = {}
    if "application_name" not in given:
        extra["application_name"] = f"fencepost {name}"[:63]
    hosts = str(given.get("host") or given.get("hostaddr") or "").count(",") + 1
    if "connect_timeout" not in given:
        extra["connect_timeout"] = max(_LEAST_CONNECT_S, int((deadline_s or _CONNECT_S) / hosts))
    if (
        "tcp_user_timeout" not in given
    ):  # ignored on unix sockets: sent data that nobody acknowledges ends the connection
        extra["tcp_user_timeout"] = max(1000, int((deadline_s or _SILENCE_S) * 1000))
    return extra | {name: value for name, value in _PROBES.items() if name not in given}


def parse(dsn: str) -> dict[str, Any]:
    """The parts of a DSN. UsageError if libpq cannot read it; the message never shows it."""
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.ProgrammingError:  # libpq's own words may quote the password
        message = (
            'the dsn is no PostgreSQL connection string; write postgresql://user@host/name or "host=... dbname=..."'
        )
        raise UsageError(message) from None
