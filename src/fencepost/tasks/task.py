"""A task: a declared function, its policy, and the ways to enqueue jobs of it.

    sent = send_receipt.using(tx=conn, job_id="receipt:7").enqueue(order_id=7)
    sent = await send_receipt.aenqueue(order_id=7)
    send_receipt(job, order_id=7)           a plain call just runs the function

Options go into ``using(...)``, the function's own parameters into ``enqueue(...)``, where type checkers check them. The
JobContext parameter is no argument of enqueue; put it first, so that type checkers know that too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack

from fencepost.domain.job import Enqueued, NewJob
from fencepost.domain.policy import TaskPolicy
from fencepost.errors import UsageError
from fencepost.tasks.context import JobContext
from fencepost.tasks.contract import Contract
from fencepost.tasks.options import EnqueueOptions, Tx, checked

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Enqueuer(Protocol):
    """Who sends jobs to the database; the app gives one to each of its tasks."""

    def enqueue(self, jobs: Sequence[NewJob], tx: Tx | None) -> list[Enqueued]:
        """Insert all or none, in the caller's transaction or an own one; one answer each, in order."""

    async def aenqueue(self, jobs: Sequence[NewJob], tx: Tx | None) -> list[Enqueued]:
        """The same, awaited."""


class Bound(Generic[P]):
    """A task with options: the result of ``using(...)``. Holds no state; it may be kept and used many times."""

    __slots__ = ("_fields", "_options", "_task")

    def __init__(self, task: Task[P, Any], options: Mapping[str, Any]) -> None:
        self._task = task
        self._options = dict(options)
        self._fields = checked(task.name, self._options)

    def __repr__(self) -> str:
        return f"<{self._task.name} using {', '.join(sorted(self._options)) or 'no options'}>"

    def using(self, **options: Unpack[EnqueueOptions]) -> Bound[P]:
        """The same with more options; the later ones win."""
        return Bound(self._task, {**self._options, **options})

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job as a value for `App.enqueue_many`; nothing is sent. PayloadError for arguments that do not fit."""
        if self._options.get("tx") is not None:
            message = f"{self._task.name}: new(...) sends nothing, so it takes no tx; give tx to enqueue_many(...)"
            raise UsageError(message)
        return self._job(args, kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Put the job into the queue and say what became of it (SPEC Q11).

        With ``tx`` it exists exactly if that transaction commits. Without, it is committed when the call returns.
        Raises PayloadError or UsageError before anything is sent; OutageError while the database is away.
        """
        return self._task.enqueuer.enqueue([self._job(args, kwargs)], self._options.get("tx"))[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """`enqueue` for async code."""
        return (await self._task.enqueuer.aenqueue([self._job(args, kwargs)], self._options.get("tx")))[0]

    def _job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        task = self._task
        payload = task.contract.encode(args, kwargs)
        # The caller knows the declaration; the table of tasks is for those who do not, and may not be published yet.
        policy = task.policy
        usual = NewJob(
            task.name, payload, policy.version, None, policy.queue, policy.priority, max_attempts=policy.max_attempts
        )
        given = {name: value for name, value in self._fields.items() if value is not None}
        return usual._replace(**given) if given else usual


class Task(Generic[P, R_co]):
    """A declared function. ``name`` is stable: jobs in the database know their task by it and by nothing else."""

    def __init__(self, function: Callable[..., R_co], policy: TaskPolicy, enqueuer: Enqueuer) -> None:
        """Made by ``@app.task``; the contract is read from the signature, which may raise UsageError."""
        self.name = policy.name
        self.function = function
        self.policy = policy
        self.enqueuer = enqueuer
        self._plain: Bound[P] = Bound(self, {})
        self.contract = Contract(policy.name, function, store_defaults=policy.data == "snapshot")
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", policy.name)
        self.__qualname__ = getattr(function, "__qualname__", policy.name)
        self.__module__ = getattr(function, "__module__", __name__)
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<Task {self.name} v{self.policy.version} ({self.policy.executor})>"

    @property
    def origin(self) -> str:
        """Where the function is declared, for messages: module and qualified name."""
        return f"{self.__module__}.{self.__qualname__}"

    def using(self, **options: Unpack[EnqueueOptions]) -> Bound[P]:
        """This task with options for the next enqueue. UsageError, naming the option, for what can never work."""
        return Bound(self, options)

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """`Bound.new` without options."""
        return self._plain.new(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """`Bound.enqueue` without options: one call, one commit."""
        return self._plain.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """`Bound.aenqueue` without options."""
        return await self._plain.aenqueue(*args, **kwargs)

    def body(self) -> Callable[[JobContext], R_co]:
        """What calls the function with the context's decoded arguments and, where it wants it, the context. For the worker."""
        function, wanted = self.function, self.contract.context_name
        if wanted is None:
            return lambda job: function(**job.arguments)
        return lambda job: function(**job.arguments, **{wanted: job})


class PlainTask(Task[P, R_co]):
    """A task whose function takes no context first."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now; nothing is enqueued."""
        return self.function(*args, **kwargs)


class ContextTask(Task[P, R_co]):
    """A task whose function takes the JobContext first."""

    def __call__(self, job: JobContext, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now with this context; nothing is enqueued."""
        return self.function(job, *args, **kwargs)
