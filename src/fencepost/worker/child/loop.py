"""Async handlers: each in a task with a context of its own, so that nothing leaks from job to job."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable

from fencepost.worker.child.attempt import Attempts, Ended
from fencepost.worker.child.held import Held


class AsyncBodies:
    """Starts bodies on the loop from any thread; tells each end to ``finished`` on the loop."""

    def __init__(
        self, attempts: Attempts, finished: Callable[[Held, Ended], None], begin: Callable[[Held], bool]
    ) -> None:
        self._attempts, self._finished, self._begin = attempts, finished, begin
        self._inbox: deque[Held] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._scheduled = False
        self._lock = threading.Lock()
        self._context = contextvars.Context()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop that runs the handlers; call in its thread."""
        self._loop, self._thread = loop, threading.get_ident()

    def submit(self, held: Held) -> None:
        """Start it soon."""
        with self._lock:
            self._inbox.append(held)
            if self._scheduled:
                return
            self._scheduled = True
        assert self._loop is not None
        if threading.get_ident() == self._thread:  # a body that ended makes room for the next: no need to wake the loop
            self._loop.call_soon(self._start)
        else:
            self._loop.call_soon_threadsafe(self._start)

    def take_back(self) -> list[Held]:
        """What has not been started, for instance because a handler blocks the loop; not what is marked as started."""
        with self._lock:
            waiting = [held for held in self._inbox if not held.marked]
            self._inbox = deque(held for held in self._inbox if held.marked)
        return waiting

    def _start(self) -> None:
        assert self._loop is not None
        while True:
            with self._lock:
                if not self._inbox:
                    self._scheduled = False
                    return
                held = self._inbox.popleft()
            held.task_ref = self._loop.create_task(self._one(held), context=self._context.copy())

    async def _one(self, held: Held) -> None:
        if not self._begin(held):
            return
        loop, me = self._loop, held.task_ref
        assert loop is not None and me is not None  # noqa: PT018
        held.reach(lambda: loop.call_soon_threadsafe(me.cancel))
        ended = await self._attempts.run_async(held)
        held.reach(None)
        held.task_ref = None
        self._finished(held, ended)
