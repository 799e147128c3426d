"""A few connections of the app's own, opened when needed (SPEC Q2).

No background thread and no background task: nothing to shut down in a script, nothing that a fork or the end of an
event loop breaks. A connection that a forked child inherited is never used and never closed by it (that would end the
parent's session); connections of an event loop that is over are dropped. A connection that broke is replaced at the
next call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from fencepost.client.connection import DEADLINE_S, AsyncBoundedConnection, BoundedConnection, aconnect, connect, usable
from fencepost.errors import OutageError
from fencepost.sql.catalog import Catalog

SIZE = 4
_INHERITED: list[
    object
] = []  # a forked child keeps its parent's connections unused, and alive so that nothing closes them


class Pool:
    """Up to ``size`` sync connections, for any threads. The last one given back is the next one taken."""

    def __init__(
        self, dsn: Callable[[], str], sql: Catalog, *, name: str, size: int = SIZE, deadline_s: float = DEADLINE_S
    ) -> None:
        self._dsn, self._sql, self._name = dsn, sql, name
        self._size, self._deadline_s = size, deadline_s
        self._fresh()

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._places = threading.BoundedSemaphore(self._size)
        self._idle: list[BoundedConnection] = []

    @contextmanager
    def connection(self) -> Iterator[BoundedConnection]:
        """A live connection in no transaction. Waits for a free place, at most the deadline (then OutageError)."""
        if self._pid != os.getpid():
            _INHERITED.extend(self._idle)
            self._fresh()
        places, idle = self._places, self._idle
        if not places.acquire(timeout=self._deadline_s):
            message = f"all {self._size} connections of this app were busy for {self._deadline_s:g} s"
            raise OutageError(message)
        try:
            conn = self._take(idle)
            try:
                yield conn
            finally:
                if usable(conn):
                    idle.append(conn)
                else:
                    conn.close()
        finally:
            places.release()

    def _take(self, idle: list[BoundedConnection]) -> BoundedConnection:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                conn = idle.pop()
                if usable(conn):
                    return conn
                conn.close()
        return connect(self._dsn(), self._sql, name=self._name, deadline_s=self._deadline_s)

    def close(self) -> None:
        """Close the idle connections. The pool may be used again afterwards."""
        if self._pid == os.getpid():
            with suppress(IndexError):
                while True:
                    self._idle.pop().close()


class _Shelf:
    """The connections of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int) -> None:
        self.loop, self.pid = loop, os.getpid()
        self.places = asyncio.Semaphore(size)
        self.idle: list[AsyncBoundedConnection] = []


class AsyncPool:
    """Up to ``size`` async connections per event loop."""

    def __init__(
        self, dsn: Callable[[], str], sql: Catalog, *, name: str, size: int = SIZE, deadline_s: float = DEADLINE_S
    ) -> None:
        self._dsn, self._sql, self._name = dsn, sql, name
        self._size, self._deadline_s = size, deadline_s
        self._lock = threading.Lock()
        self._shelves: list[_Shelf] = []

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncBoundedConnection]:
        """A live connection in no transaction. Waits for a free place, at most the deadline (then OutageError)."""
        shelf = self._shelf()
        try:
            async with asyncio.timeout(self._deadline_s):
                await shelf.places.acquire()
        except TimeoutError:
            message = f"all {self._size} connections of this app were busy for {self._deadline_s:g} s"
            raise OutageError(message) from None
        try:
            conn = await self._take(shelf)
            try:
                yield conn
            finally:
                if usable(conn):
                    shelf.idle.append(conn)
                else:
                    await conn.close()
        finally:
            shelf.places.release()

    async def _take(self, shelf: _Shelf) -> AsyncBoundedConnection:
        while shelf.idle:
            conn = shelf.idle.pop()
            if usable(conn):
                return conn
            await conn.close()
        dsn = await asyncio.to_thread(self._dsn)  # the embedded server may have to start first
        return await aconnect(dsn, self._sql, name=self._name, deadline_s=self._deadline_s)

    def _shelf(self) -> _Shelf:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._drop_dead()
            for shelf in self._shelves:
                if shelf.loop is loop:
                    return shelf
            shelf = _Shelf(loop, self._size)
            self._shelves.append(shelf)
            return shelf

    def _drop_dead(self) -> None:
        for shelf in [s for s in self._shelves if s.pid != os.getpid()]:
            _INHERITED.append(shelf)
            self._shelves.remove(shelf)
        for shelf in [s for s in self._shelves if s.loop.is_closed()]:
            self._shelves.remove(shelf)
            _finish(shelf)

    async def aclose(self) -> None:
        """Close the idle connections of this event loop, and those of loops that are over."""
        shelf = self._shelf()
        while shelf.idle:
            await shelf.idle.pop().close()

    def close(self) -> None:
        """Close the idle connections of every loop, from outside: for a program whose loops are over."""
        with self._lock:
            self._drop_dead()
            for shelf in self._shelves:
                _finish(shelf)


def _finish(shelf: _Shelf) -> None:
    while shelf.idle:
        shelf.idle.pop().pgconn.finish()
