"""``@app.task(...)``: a function and its options become a task, or a sentence says why not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Concatenate, Literal, ParamSpec, TypedDict, TypeVar, overload

from fencepost.domain.policy import RetryPolicy, TaskPolicy
from fencepost.errors import UsageError
from fencepost.tasks.context import JobContext
from fencepost.tasks.middleware import is_async
from fencepost.tasks.options import name as checked_name
from fencepost.tasks.options import unknown
from fencepost.tasks.registry import Registry
from fencepost.tasks.task import ContextTask, Enqueuer, PlainTask, Task

P = ParamSpec("P")
R = TypeVar("R")
Duration = float | int | str | timedelta


class TaskOptions(TypedDict, total=False):
    """Keyword arguments of ``@app.task``. Durations are seconds, a timedelta, or text such as "2m".

    queue, priority (higher first): defaults of its jobs. retry: how often and when again (5 attempts by default).
    timeout: of one attempt (none). max_duration: the hard end of one run (24 h). heartbeat_ttl: instead of the
    worker's. lease: a plain lease of that length without beats; timeout must be shorter (SPEC C4).
    executor: "async" (default for coroutine functions), "thread" (for others) or "process" (CPU-bound, crash-prone).
    at_most_once: no automatic path starts the body twice (SPEC W12). on_lost: after a lost lease. max_crashes: R6.
    dedup_window: how long a succeeded job_id answers `deduplicated` (24 h). keep_succeeded, keep_failed: retention.
    version: of the payload's contract. data: "reference" (reads the state at the run) or "snapshot" (defaults are
    stored).
    """

    queue: str
    priority: int
    retry: RetryPolicy
    timeout: Duration | None
    max_duration: Duration
    heartbeat_ttl: Duration | None
    lease: Duration | None
    executor: Literal["async", "thread", "process"]
    at_most_once: bool
    on_lost: Literal["retry", "fail", "in_doubt"]
    max_crashes: int
    dedup_window: Duration
    keep_succeeded: Duration
    keep_failed: Duration
    version: int
    data: Literal["reference", "snapshot"]


class Declaration:
    """What ``app.task("name", ...)`` returns: the decorator."""

    def __init__(self, name: Any, options: TaskOptions, registry: Registry, enqueuer: Enqueuer) -> None:
        if not isinstance(name, str):
            message = '@app.task needs a name that stays the same when the function moves: @app.task("mail.send")'
            raise UsageError(message)
        for option in options:
            if option not in TaskOptions.__annotations__:
                raise UsageError(unknown(f"task {name!r}", option, TaskOptions.__annotations__))
        self._name = checked_name("a task's name", name)
        self._options = options
        self._registry = registry
        self._enqueuer = enqueuer

    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], R]) -> ContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> PlainTask[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Task[..., Any]:
        """Register ``function``. Raises UsageError, naming task and field, for what can never run."""
        self._refuse(function)
        executor = self._options.get("executor") or ("async" if is_async(function) else "thread")
        self._check_executor(function, executor)
        options: dict[str, Any] = {**self._options, "executor": executor}
        policy = TaskPolicy(name=self._name, **options)
        form = ContextTask if _context_first(function) else PlainTask
        task: Task[..., Any] = form(function, policy, self._enqueuer)
        self._registry.add(task)
        return task

    def _refuse(self, function: Any) -> None:
        if isinstance(function, Task):
            message = f"task {self._name!r}: {function.origin} is a task already; one function, one task"
            raise UsageError(message)
        if not callable(function) or inspect.isclass(function):
            message = f"task {self._name!r} must be a function, not {type(function).__name__}"
            raise UsageError(message)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            message = (
                f"task {self._name!r} is a generator: its body would never run; return a value instead of yielding"
            )
            raise UsageError(message)

    def _check_executor(self, function: Callable[..., Any], executor: str) -> None:
        if executor not in {"async", "thread", "process"}:
            message = f"task {self._name!r}: executor must be 'async', 'thread' or 'process', not {executor!r}"
            raise UsageError(message)
        if (executor == "async") != is_async(function):
            wanted = "a coroutine function (async def)" if executor == "async" else "a plain function (def)"
            message = f"task {self._name!r}: executor {executor!r} needs {wanted}"
            raise UsageError(message)
        qualname = getattr(function, "__qualname__", "<locals>")
        if executor == "process" and ("<" in qualname or "." in qualname):
            message = f"task {self._name!r} runs in a process of its own, so it must be a function at module level"
            raise UsageError(message)


def _context_first(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError, SyntaxError):
        return False  # the contract says why, with the task's name
    return next((p.annotation is JobContext for p in parameters), False)
