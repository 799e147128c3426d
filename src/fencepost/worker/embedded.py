"""A worker inside the user's own program: ``async with app.worker(queues=["mail"], slots=8): ...``.

Its beats come from a thread of the same process, so code that holds the GIL for long starves them (SPEC C5): for such
tasks use the command ``fencepost worker``. No signal handlers are touched; leaving the block drains.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from fencepost.errors import FencepostError
from fencepost.store import faults, schema
from fencepost.store.connect import open_connection
from fencepost.store.wire import Wire
from fencepost.worker.board import Board
from fencepost.worker.child.runtime import Runtime
from fencepost.worker.pulse import Pulse
from fencepost.worker.settings import WorkerSettings

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.sql.catalog import Catalog


class Service(Protocol):
    """A thread that runs beside, such as the leader."""

    def start(self) -> None:
        """Begin."""

    def halt(self) -> None:
        """Ask it to end."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""


class EmbeddedWorker:
    """Runs while its ``async with`` block does. Use one at a time; not in several loops.

    Raises SchemaError, OutageError or UsageError when it begins, with nothing started then.
    """

    def __init__(
        self,
        app: App,
        settings: WorkerSettings,
        *,
        duties: Callable[[str, Catalog], Sequence[Service]] | None = None,
    ) -> None:
        self._app, self._settings, self._duties = app, settings, duties
        self._runtime: Runtime | None = None
        self._pulse: Pulse | None = None
        self._services: list[Service] = []

    @property
    def error(self) -> FencepostError | None:
        """What ended the worker by itself, such as a schema that vanished."""
        return None if self._runtime is None else self._runtime.error

    async def __aenter__(self) -> Self:
        """Look at the schema, then begin to claim."""
        dsn = await asyncio.to_thread(self._verified_dsn)
        board = Board(None, 0, self._settings.entries)
        runtime = self._runtime = Runtime(
            self._app, self._settings, dsn=dsn, board=board, app_path=None, supervised=False
        )
        self._pulse = Pulse(
            Wire(dsn, deadline=self._settings.call_deadline, name="pulse"),
            self._app.catalog,
            board=board,
            token=runtime.token,
            interval=self._settings.heartbeat_interval,
            on_answers=runtime.on_answers,
            on_failed=runtime.on_trouble,
        )
        runtime.start(asyncio.get_running_loop())
        self._pulse.start()
        if self._duties is not None:
            self._services = list(self._duties(dsn, self._app.catalog))
            for service in self._services:
                service.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drain: what does not end within the shutdown timeout is handed back; a stuck thread keeps its lease."""
        runtime, pulse = self._runtime, self._pulse
        assert runtime is not None and pulse is not None  # noqa: PT018
        runtime.drain()
        over = await asyncio.to_thread(runtime.wait_over, self._settings.shutdown_timeout + 2.0)
        for service in self._services:
            service.halt()
        for service in self._services:
            await asyncio.to_thread(service.join, 5.0)
        if over:
            pulse.halt()
            await asyncio.to_thread(pulse.join, 5.0)
        else:  # a stuck thread keeps its lease, and the pulse goes on for it, and no longer
            threading.Thread(target=_halt_when_over, args=(runtime, pulse), name="fencepost-last", daemon=True).start()

    async def run_until_idle(self, within: float = 60.0) -> None:
        """Wait until nothing runs and two polls found nothing due. Raises TimeoutError; for tests and scripts."""
        runtime = self._runtime
        assert runtime is not None, "use it inside async with"
        clerk = runtime.clerk
        ends = time.monotonic() + within
        clerk.idle_since = None  # what was seen before this call does not count
        runtime.clerk.wake()
        while True:
            since: float | None = clerk.idle_since
            if since is not None and runtime.room.is_empty and time.monotonic() - since > 0.05:
                return
            if runtime.error is not None:
                raise runtime.error
            if time.monotonic() > ends:
                message = f"jobs were still waiting or running after {within:g} s"
                raise TimeoutError(message)
            await asyncio.sleep(0.01)

    async def run(self) -> None:
        """Work until cancelled, then drain; or raise what ended the worker."""
        async with self:
            while self.error is None:  # noqa: ASYNC110 - another thread writes it
                await asyncio.sleep(0.2)
        raise self.error

    def _verified_dsn(self) -> str:
        dsn = self._app.dsn
        try:
            with open_connection(dsn, name="start", deadline_s=10.0) as conn:
                schema.verify(conn, self._app.catalog)
        except Exception as error:
            raise faults.translate(error) from error
        return dsn


def _halt_when_over(runtime: Runtime, pulse: Pulse) -> None:
    runtime.wait_over()
    pulse.halt()


Duties = Callable[[str, Any], Sequence[Service]]
