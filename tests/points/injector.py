"""Fails exactly one call to the database, in one way, at the one seam through which every connection waits for it.

Opening a connection is a call too. The first run of an operation counts its calls; then each is failed in turn:

    before_send    the driver raises, nothing was sent
    after_commit   the call took effect, its answer is lost, the connection is dead
    dead           the connection was cut before the call
    deadline       the call was sent; our own clock ran out before the answer, whatever the server did
    interrupted    KeyboardInterrupt while waiting for the answer; in async code the task is cancelled there
    57P01          the server process was ended by pg_terminate_backend
    40001, 40P01, 25006, 57014   the server itself refuses the statement or, by a deferred trigger, its COMMIT

But for before_send nothing is pretended: sockets are shut, processes ended, and the server writes its own errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import psycopg
from psycopg import errors
from psycopg import waiting as driver
from psycopg.pq import TransactionStatus

from fencepost.client.connection import AsyncBoundedConnection, BoundedConnection
from fencepost.errors import OutageError
from fencepost.store.connect import DeadlineConnection
from waiting import eventually

REFUSALS = ("40001", "40P01", "25006", "57014")
WAYS = ("before_send", "after_commit", "dead", "deadline", "interrupted", "57P01", *REFUSALS)

REFUSED_COMMIT = """
create table public.refusal (code text);
create function public.refuse() returns trigger language plpgsql as $$
begin raise exception 'injected' using errcode = new.code; end $$;
create constraint trigger refuse after insert on public.refusal deferrable initially deferred
  for each row execute function public.refuse();
"""
"""A row here makes the COMMIT of its transaction fail with that code."""


class Callers(psycopg.Connection[Any]):
    """A connection of a user's program."""


class AsyncCallers(psycopg.AsyncConnection[Any]):
    """The same for async code."""


SYNC: tuple[type[psycopg.Connection[Any]], ...] = (DeadlineConnection, BoundedConnection, Callers)
ASYNC: tuple[type[psycopg.AsyncConnection[Any]], ...] = (AsyncBoundedConnection, AsyncCallers)
_APPLY: dict[str, set[str]] = {
    # what is done: which ways can happen to it
    "open": {"before_send", "dead", "57P01", "interrupted"},
    "begin": {"after_commit", "dead", "deadline", "57P01", "interrupted"},
    "commit": {"after_commit", "dead", "deadline", "57P01", "interrupted", "40001", "40P01", "57014"},
    "execute": set(WAYS),
    "other": set(),  # settings of the driver's own, and what follows a fault
}


@dataclass(frozen=True)
class Call:
    """One call as it was counted: ``kind`` decides what can happen to it, ``text`` is for people."""

    kind: str
    text: str
    has_deadline: bool

    def can(self, way: str) -> bool:
        return way in _APPLY[self.kind] and (self.has_deadline or way != "deadline")


@dataclass
class Injector:
    """Counts calls while it is `armed` and fails the one that was asked for. From any thread."""

    dsn: str
    way: str | None = None
    at: int = -1
    calls: list[Call] = field(default_factory=list)
    fired: Call | None = None
    _on: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def armed(self, way: str | None = None, at: int = -1) -> Iterator[None]:
        """Count from 0; ``at``: the call to fail."""
        self.way, self.at, self.calls, self.fired, self._on = way, at, [], None, True
        try:
            yield
        finally:
            self._on = False

    def meets(self, call: Call) -> str | None:
        """Count this call; how it must fail, if it is the one."""
        with self._lock:
            if not self._on:
                return None
            self.calls.append(call)
            if len(self.calls) - 1 != self.at:
                return None
            assert call.can(self.way or ""), f"{self.way} cannot happen to {call}"
            self.fired = call
            return self.way

    def end_backend(self, conn: _Any) -> None:
        """pg_terminate_backend, and wait until it is gone."""
        pid = conn.info.backend_pid
        with psycopg.connect(self.dsn, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s)", (pid,))
            query = "select from pg_stat_activity where pid = %s"
            eventually(lambda: not other.execute(query, (pid,)).fetchall(), every=0.001)


_Any = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


@contextmanager
def injecting(dsn: str) -> Iterator[Injector]:
    """Put the injector between the library and its connections."""
    made = Injector(dsn)
    with ExitStack() as stack:
        for one in SYNC:
            _patch(stack, one, "wait", _sync_wait(made, one.wait))
            _patch(stack, one, "connect", classmethod(_sync_connect(made)))
        for other in ASYNC:
            _patch(stack, other, "wait", _async_wait(made, other.wait))
            _patch(stack, other, "connect", classmethod(_async_connect(made)))
        yield made


def _patch(stack: ExitStack, owner: type, name: str, new: object) -> None:
    stack.enter_context(mock.patch.object(owner, name, new))


# ------------------------------------------------------------------------------------------------------------- the seam


def _sync_wait(injector: Injector, real: Callable[..., Any]) -> Callable[..., Any]:
    def wait(conn: Any, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        way = None if timeout is not None else injector.meets(_describe(conn, gen))
        if way is None:
            return real(conn, gen, interval=interval, timeout=timeout)
        if way == "interrupted":
            return _interrupted(conn, gen, real)
        _before(injector, way, conn, gen)
        short = contextlib.nullcontext()
        if way == "deadline" and isinstance(conn, DeadlineConnection):
            short = mock.patch.object(conn, "deadline_s", 0.0)  # type: ignore[assignment]
        with short:
            found = real(conn, gen, interval=interval)
        _after(way, conn)
        return found

    return wait


def _async_wait(injector: Injector, real: Callable[..., Any]) -> Callable[..., Any]:
    async def wait(conn: Any, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - psycopg's
        way = None if timeout is not None else injector.meets(_describe(conn, gen))
        if way == "interrupted":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # takes effect where this task next waits: for the answer
        elif way is not None:
            _before(injector, way, conn, gen)
        found = await real(conn, gen, interval=interval, timeout=timeout)
        if way is not None:
            _after(way, conn)
        return found

    return wait


def _sync_connect(injector: Injector) -> Callable[..., Any]:
    def connect(kind: Any, *args: Any, **options: Any) -> Any:
        way = injector.meets(Call("open", f"open a {kind.__name__}", False))
        if way == "interrupted":
            raise KeyboardInterrupt
        if way == "before_send":
            raise psycopg.OperationalError("injected: no connection")
        conn = psycopg.Connection.connect.__func__(kind, *args, **options)  # type: ignore[attr-defined]
        _hurt(injector, way, conn)
        return conn

    return connect


def _async_connect(injector: Injector) -> Callable[..., Any]:
    async def connect(kind: Any, *args: Any, **options: Any) -> Any:
        way = injector.meets(Call("open", f"open an {kind.__name__}", False))
        if way == "interrupted":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        if way == "before_send":
            raise psycopg.OperationalError("injected: no connection")
        conn = await psycopg.AsyncConnection.connect.__func__(kind, *args, **options)  # type: ignore[attr-defined]
        _hurt(injector, way, conn)
        return conn

    return connect


def _describe(conn: _Any, gen: Any) -> Call:
    """What a generator of psycopg's is about to do, by its name and its arguments."""
    name = gen.__name__
    has_deadline = hasattr(conn, "deadline_s") and conn.deadline_s is not None
    if name == "_execute_gen":
        text = gen.gi_frame.f_locals["query"]
        text = text.decode() if isinstance(text, bytes) else str(text)
        lines = [line for line in text.splitlines() if not line.startswith("--")]
        return Call("execute", " ".join(" ".join(lines).split())[:70], has_deadline)
    if name == "_enter_gen":
        return Call("begin", "begin", has_deadline)
    if name == "_exit_gen" and not gen.gi_frame.f_locals["self"]._outer_transaction:
        return Call("begin", "release", has_deadline)  # a savepoint: nothing is checked at its end
    if name in ("_exit_gen", "_commit_gen") and conn.pgconn.transaction_status == TransactionStatus.INTRANS:
        return Call("commit", "commit", has_deadline)
    return Call("other", name, has_deadline)


# ------------------------------------------------------------------------------------------------------------- the ways


def _before(injector: Injector, way: str, conn: _Any, gen: Any) -> None:
    if way == "before_send":
        gen.close()
        raise psycopg.OperationalError("injected: nothing was sent")
    if way in REFUSALS:
        _refuse(way, conn, gen)
    _hurt(injector, way, conn)


def _hurt(injector: Injector, way: str | None, conn: _Any) -> None:
    if way == "dead":
        _cut(conn)
    elif way == "57P01":
        injector.end_backend(conn)


def _after(way: str, conn: _Any) -> None:
    """The call came through, which only two ways are for."""
    if way == "after_commit":
        _cut(conn)
        conn.pgconn.finish()
        raise psycopg.OperationalError("injected: server closed the connection unexpectedly")
    if way == "deadline":
        _cut(conn)
        conn.pgconn.finish()
        raise OutageError("injected: no answer in time; whether the call took effect is unknown")
    assert way in REFUSALS, f"the call came through although {way} was injected"


def _refuse(code: str, conn: _Any, gen: Any) -> None:
    """Let the server raise it: instead of the statement, or at the COMMIT that comes."""
    if gen.__name__ in ("_exit_gen", "_commit_gen"):
        assert conn.pgconn.transaction_status == TransactionStatus.INTRANS
        conn.pgconn.exec_(f"insert into public.refusal values ('{code}')".encode())
        return
    gen.close()
    result = conn.pgconn.exec_(f"do $$ begin raise exception 'injected' using errcode = '{code}'; end $$".encode())
    raise errors.error_from_result(result)


def _interrupted(conn: Any, gen: Any, real: Callable[..., Any]) -> Any:
    """KeyboardInterrupt while the answer is waited for: the generator stays where it is, as with a real one."""
    if isinstance(conn, DeadlineConnection):
        with mock.patch.object(select, "poll", side_effect=KeyboardInterrupt):
            return real(conn, gen)
    genuine = driver.wait

    def once(steps: Any, *_: Any, **__: Any) -> Any:
        patched.stop()
        next(steps)
        raise KeyboardInterrupt

    patched = mock.patch.object(driver, "wait", once)
    patched.start()
    try:
        return real(conn, gen)
    finally:
        assert driver.wait is genuine


def _cut(conn: _Any) -> None:
    """Shut the stream below the driver."""
    with socket.socket(fileno=os.dup(conn.fileno())) as sock:
        sock.shutdown(socket.SHUT_RDWR)
