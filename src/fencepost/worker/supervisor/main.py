"""`run`: one supervisor from its first child to its last, in the main thread of the process.

The module imports neither the user's code nor the libraries that only children need: the supervisor stays small and
cannot be broken by what it watches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fencepost.errors import FencepostError
from fencepost.sql.catalog import Catalog
from fencepost.worker.board import allocate
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervisor.clerk import Clerk, Order
from fencepost.worker.supervisor.processes import PROGRAM, Launch
from fencepost.worker.supervisor.watch import Watch

log = logging.getLogger("fencepost.supervisor")

_LAST_S = 2.5
"""How long an ending supervisor tries to write its last rescues and lets services end; what it cannot is left to the ttl.
With the time that a child may take beyond its own it ends within 5 s of the shutdown timeout (docs/operations.md)."""


class Service(Protocol):
    """Something that runs beside the watch: a thread, such as the leader."""

    def start(self) -> None:
        """Begin. Must not block."""

    def halt(self) -> None:
        """Ask it to end. Must not block."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""


DutyFactory = Callable[[str, Catalog], Sequence[Service]]
"""DSN and catalog -> services. A factory, since without a DSN of the command's own it is the app's, which only the
children import.
"""


def run(
    app: str,
    settings: WorkerSettings,
    *,
    dsn: str | None = None,
    schema: str | None = None,
    logs: Mapping[str, Any] | None = None,
    duties: DutyFactory | None = None,
    on_dsn: Callable[[str], None] | None = None,
    program: Sequence[str] = PROGRAM,
) -> int:
    """Run workers until they are told to stop; the exit code: 0 after a clean stop.

    Args:
        app: ``module:attribute``, imported by the children only.
        settings: validated.
        dsn: where the database is; None: as the app says.
        schema: where the tables are; None: as the app says.
        logs: handed to the children: ``{"json": bool, "level": str, "secrets": [what they must not log or store]}``.
        duties: what runs beside, such as the leader.
        on_dsn: hears the DSN before anything connects, also the app's, which only the children knew (for the redactor).
        program: what a child runs, after the interpreter (for tests).

    Raises `FencepostError`, with the exit code in ``exit_code``, when no child could ever begin. Must be called in the
    main thread; end the process with `early.finish`. SIGTERM, SIGINT and SIGHUP (unless ignored, as under nohup) stop
    it, a second one hands back at once; SIGUSR1: claim no more; SIGUSR2: stacks and leases to the log.
    """
    launch = Launch(app=app, settings=settings, dsn=dsn, schema=schema, logs=dict(logs or {}), program=tuple(program))
    fd = allocate(settings.processes, settings.entries)
    try:
        return _Supervisor(launch, fd, duties, on_dsn or (lambda _: None)).run()
    finally:
        os.close(fd)


class _Supervisor:
    """Introduces watch, clerk and services to each other."""

    def __init__(
        self, launch: Launch, board_fd: int, duties: DutyFactory | None, on_dsn: Callable[[str], None]
    ) -> None:
        self._launch, self._duties, self._on_dsn = launch, duties, on_dsn
        self._watch = Watch(launch, board_fd, on_ready=self._on_ready, order=self._order)
        self._clerk: Clerk | None = None
        self._services: list[Service] = []

    def run(self) -> int:
        if not self._watch.listen():
            log.info("told to stop before it began")
            return 0
        log.info("supervisor (pid %d) starts %d worker processes", os.getpid(), self._launch.settings.processes)
        self._watch.run()
        self._end()
        if self._watch.reason is not None and not self._watch.was_ready:
            error = FencepostError(self._watch.reason)
            error.exit_code = self._watch.code
            raise error
        log.info("supervisor ended with exit code %d", self._watch.code)
        return self._watch.code

    def _on_ready(self, hello: dict[str, object]) -> None:
        """A child knows where the database is: beats and duties can begin."""
        settings = self._launch.settings
        dsn = self._launch.dsn or str(hello.get("dsn") or "")
        self._on_dsn(dsn)
        sql = Catalog(self._launch.schema or str(hello.get("schema") or "fencepost"))
        self._clerk = Clerk(dsn, sql, settings, living=lambda: self._watch.living, tell=self._watch.tell)
        self._clerk.start()
        if self._duties is not None:
            self._services = list(self._duties(dsn, sql))
            for service in self._services:
                service.start()

    def _order(self, order: Order) -> None:
        assert self._clerk is not None, "nothing is ordered before a child has greeted"
        self._clerk.order(order)

    def _end(self) -> None:
        ends = time.monotonic() + _LAST_S
        for service in self._services:
            with contextlib.suppress(Exception):  # what runs beside must not change how the worker ends
                service.halt()
        if self._clerk is not None and not self._clerk.finish(_LAST_S):
            log.error("the database did not answer in time: some leases are left to their ttl")
        for service in self._services:
            with contextlib.suppress(Exception):
                service.join(max(0.1, ends - time.monotonic()))
