"""Async handlers: each in a context of its own, so that nothing leaks from job to job.

A few tasks of the loop, the runners, carry them one after the other: a task for each job would cost more than most of what
fencepost does for it. A body that waits for nothing is over before the loop turns. When one waits, its runner waits with
it, and another takes what is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from fencepost.worker.child.attempt import Attempts, Ended
from fencepost.worker.child.held import Held

log = logging.getLogger("fencepost.worker")

_SLICE_S = 0.005
"""After so long a runner lets the loop turn, whose other work may be waiting."""

_AT_ONCE = 16
"""So many bodies begin in one turn of the loop: a thousand would stop whatever else it does."""

_MOST_IDLE = 64


class AsyncBodies:
    """Starts bodies on the loop from any thread; tells each end to ``finished`` on the loop."""

    def __init__(
        self, attempts: Attempts, finished: Callable[[Held, Ended], None], begin: Callable[[Held], bool]
    ) -> None:
        self._attempts, self._finished, self._begin = attempts, finished, begin
        self._inbox: deque[Held] = deque()
        self._lock = threading.Lock()
        self._looking = False
        """Somebody will look into the inbox: `_start`, which is scheduled, or a runner that is at work."""
        self._scheduled = False
        """`_start` is: once is enough."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._context = contextvars.Context()
        self._runners: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._bodies_wait = False
        """Whether the newest body waited for something: if so, each that is there gets a runner at once."""
        self._closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop that runs the handlers; call in its thread."""
        self._loop, self._thread = loop, threading.get_ident()

    def submit(self, held: Held) -> None:
        """Start it soon."""
        with self._lock:
            self._inbox.append(held)
            if self._looking:
                return
            self._looking = self._scheduled = True
        assert self._loop is not None
        if threading.get_ident() == self._thread:  # no need to wake the loop
            self._loop.call_soon(self._start)
        else:
            self._loop.call_soon_threadsafe(self._start)

    def take_back(self) -> list[Held]:
        """What has not been started, for instance because a handler blocks the loop; not what is marked as started."""
        with self._lock:
            waiting = [held for held in self._inbox if not held.marked]
            self._inbox = deque(held for held in self._inbox if held.marked)
        return waiting

    def close(self) -> None:
        """Let idle runners end. From any thread; the loop may be gone."""
        self._closed = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._dismiss)

    # ------------------------------------------------------------------------------------------------------ on the loop

    def _start(self) -> None:
        """Wake a runner, who calls for the next when its body waits; or some at once, each for one body."""
        assert self._loop is not None
        with self._lock:
            self._scheduled = False
            there = len(self._inbox)
            self._looking = there > 0
        for _ in range(min(there, _AT_ONCE if self._bodies_wait else 1)):
            if not self._wake_idle():
                runner = self._loop.create_task(self._run(), name="fencepost-runner", context=self._context.copy())
                self._runners.add(runner)
                runner.add_done_callback(self._runners.discard)

    def _wake_idle(self) -> bool:
        while self._idle:
            waker = self._idle.pop()
            if not waker.done():  # somebody may have cancelled it
                waker.set_result(None)
                return True
        return False

    def _dismiss(self) -> None:
        while self._wake_idle():
            pass

    def _hand_on(self) -> None:
        """I look no more: let another look, if there is anything."""
        assert self._loop is not None
        with self._lock:
            self._looking = bool(self._inbox) or self._scheduled
            if not self._inbox or self._scheduled:
                return
            self._scheduled = True
        if not self._loop.is_closed():
            self._loop.call_soon(self._start)

    def _take(self) -> Held | None:
        with self._lock:
            if self._inbox:
                return self._inbox.popleft()
            self._looking = False
            return None

    async def _run(self) -> None:
        """One runner. Whoever asked for its end has asked for one body's: it ends with that one, and others go on."""
        assert self._loop is not None
        me = asyncio.current_task()
        assert me is not None
        turned = time.monotonic()
        try:
            while not me.cancelling():
                held = self._take()
                if held is not None:
                    await self._carry(held, me)
                    if time.monotonic() - turned > _SLICE_S:
                        await asyncio.sleep(0)
                        turned = time.monotonic()
                    continue
                if self._closed or len(self._idle) >= _MOST_IDLE:
                    return
                waker = self._loop.create_future()
                self._idle.append(waker)
                await waker
                turned = time.monotonic()
        finally:
            self._hand_on()

    async def _carry(self, held: Held, me: asyncio.Task[None]) -> None:
        try:
            if not self._begin(held):
                return
            held.task_ref = me
            held.reach(self._interrupt)
            ended = await _Apart(self._attempts.run_async(held), self._context.copy(), self._waits)
            held.task_ref = None
            self._finished(held, ended)
        except Exception:  # one job's trouble is not the next one's
            log.exception("job %s: its runner stumbled and goes on", held.claimed.job_id)

    def _interrupt(self, held: Held) -> None:
        """From any thread."""
        assert self._loop is not None

        def cancel() -> None:
            if held.task_ref is not None:  # else its body is over, and the runner carries another
                held.task_ref.cancel()

        self._loop.call_soon_threadsafe(cancel)

    def _waits(self, waits: bool) -> None:
        """The body of a runner waits for the first time, or has ended without."""
        self._bodies_wait = waits
        if waits:
            self._hand_on()


class _Apart:
    """Awaits a coroutine in a context of its own, inside the current task.

    What it sets in context variables is gone when it has ended; its time-outs, task groups and ``current_task()`` are the
    task's. ``waits`` hears whether it had to wait, once.
    """

    __slots__ = ("_context", "_coro", "_waits")

    def __init__(
        self, coro: Coroutine[Any, Any, Ended], context: contextvars.Context, waits: Callable[[bool], None]
    ) -> None:
        self._coro, self._context, self._waits = coro, context, waits

    def __await__(self) -> Generator[Any, Any, Ended]:
        coro, run = self._coro, self._context.run
        try:
            awaited = run(coro.send, None)
        except StopIteration as end:
            self._waits(False)
            return end.value  # type: ignore[no-any-return]
        self._waits(True)
        while True:
            step, given = coro.send, None
            try:
                given = yield awaited
            except GeneratorExit:  # the loop is gone, and nobody will resume the body
                coro.close()
                raise
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the body's
                step, given = coro.throw, error
            try:
                awaited = run(step, given)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
