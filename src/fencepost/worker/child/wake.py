"""LISTEN as a hint: wakes the clerk. Polling is the truth; where notifications do not come, nothing is lost (DESIGN)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from psycopg import sql

from fencepost.store.connect import open_connection

log = logging.getLogger("fencepost.worker")

_TURN_S = 0.5
_RETRY_S = 2.0
_DEADLINE_S = 5.0
_PROBE_S = 5.0  # so long nothing may come before the connection is asked whether it lives


class Wakeup(threading.Thread):
    """Listens on a connection of its own until `halt`; connects again after a loss."""

    def __init__(self, dsn: str, channel: str, wake: Callable[[], None]) -> None:
        super().__init__(name="fencepost-listen", daemon=True)
        self._dsn, self._channel, self._wake = dsn, channel, wake
        self._halt = threading.Event()

    def halt(self) -> None:
        """End soon."""
        self._halt.set()

    def run(self) -> None:
        """Until halted."""
        while not self._halt.is_set():
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - a hint that fails costs a poll, no more
                log.debug("listening failed: %s", type(error).__name__)
                self._halt.wait(_RETRY_S)

    def _listen(self) -> None:
        with open_connection(self._dsn, name="listen", deadline_s=_DEADLINE_S) as conn:
            row = conn.execute("select pg_catalog.pg_backend_pid()").fetchone()
            assert row is not None
            conn.note_backend(row[0])
            if conn.is_direct is False:
                log.info("a transaction pooler stands between: jobs are found by polling only")
                self._halt.wait()
                return
            conn.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
            probe_at = time.monotonic() + _PROBE_S
            while not self._halt.is_set():
                for _ in conn.notifies(timeout=_TURN_S, stop_after=1):
                    self._wake()
                    probe_at = time.monotonic() + _PROBE_S
                if time.monotonic() > probe_at:  # half-open sockets are silent for ever, and acknowledge everything
                    conn.execute("select 1")
                    probe_at = time.monotonic() + _PROBE_S
