"""Middleware: code around every run. It may change the outcome, by raising or by what it returns.

    @app.middleware
    async def timed(job: JobContext, call_next: AsyncNext) -> Any:     # around handlers that are coroutine functions
        with job.step("handler"):
            return await call_next(job)

    @app.middleware
    def timed_sync(job: JobContext, call_next: SyncNext) -> Any:       # around thread and process handlers
        with job.step("handler"):
            return call_next(job)

The rules, the same for both forms:

* The first one registered is the outermost. Register before the worker starts: a task's are put together at its first run.
* ``await call_next(job)`` (or ``call_next(job)``) runs the rest once and gives back what the handler returned. Whatever
  the handler raises passes through; a middleware that swallows it makes the run a success.
* What a middleware raises, a control exception (``Skip``, ``RetryLater`` ...) included, counts as the
  handler's.
* Not calling ``call_next`` means that the body does not run; calling it twice runs the body twice within one run.
* A form wraps only the handlers of its own kind: register both for a concern that all tasks share. `uncovered` names
  the tasks that a one-sided middleware leaves out, and a worker logs them when it starts.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from fencepost.errors import UsageError
from fencepost.tasks.context import JobContext

AsyncNext = Callable[[JobContext], Awaitable[Any]]
SyncNext = Callable[[JobContext], Any]
AsyncMiddleware = Callable[[JobContext, AsyncNext], Awaitable[Any]]
SyncMiddleware = Callable[[JobContext, SyncNext], Any]
AnyMiddleware = AsyncMiddleware | SyncMiddleware

M = TypeVar("M", bound=Callable[..., Any])


class Middlewares:
    """The middleware of one app, in order; callable, so that it is its own decorator: ``@app.middleware``."""

    def __init__(self, middlewares: Iterable[AnyMiddleware] = ()) -> None:
        self._async: list[AsyncMiddleware] = []
        self._sync: list[SyncMiddleware] = []
        for middleware in middlewares:
            self(middleware)

    def __call__(self, middleware: M) -> M:
        """Register ``middleware`` as the innermost so far. Raises UsageError unless it takes (job, call_next)."""
        _refuse(middleware)
        if is_async(middleware):
            self._async.append(middleware)
        else:
            self._sync.append(middleware)
        return middleware

    def around_async(self, body: AsyncNext) -> AsyncNext:
        """``body`` with every async middleware around it. Composed once per task, not per run."""
        for middleware in reversed(self._async):
            body = _wrap_async(middleware, body)
        return body

    def around_sync(self, body: SyncNext) -> SyncNext:
        """``body`` with every sync middleware around it."""
        for middleware in reversed(self._sync):
            body = _wrap_sync(middleware, body)
        return body

    def uncovered(self, *, async_tasks: Iterable[str], sync_tasks: Iterable[str]) -> list[str]:
        """The tasks that run without middleware although the app has some of the other form; sorted."""
        bare: set[str] = set()
        if self._sync and not self._async:
            bare.update(async_tasks)
        if self._async and not self._sync:
            bare.update(sync_tasks)
        return sorted(bare)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling ``function`` gives a coroutine; also for objects with an async ``__call__``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _wrap_async(middleware: AsyncMiddleware, inner: AsyncNext) -> AsyncNext:
    def wrapped(job: JobContext) -> Awaitable[Any]:
        return middleware(job, inner)

    return wrapped


def _wrap_sync(middleware: SyncMiddleware, inner: SyncNext) -> SyncNext:
    def wrapped(job: JobContext) -> Any:
        return middleware(job, inner)

    return wrapped


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _refuse(middleware: Any) -> None:
    if not callable(middleware):
        message = f"a middleware must be a function of (job, call_next), not {type(middleware).__name__}"
        raise UsageError(message)
    try:
        inspect.signature(middleware).bind(None, None)
    except TypeError:
        message = f"middleware {_name(middleware)} must take two arguments: (job, call_next)"
        raise UsageError(message) from None
