"""Events: what observers are told about runs. They see, they never steer.

    @app.on(JobEnded)
    def count(event: JobEnded) -> None:
        finished.labels(event.task, event.act).inc()

An observer is a plain function, called in the worker's own thread after the fact: keep it short, it must not block.
What it raises is logged and forgotten; no outcome depends on it. An observer of ``Event`` sees every kind. Nobody changes
an event. It is not frozen because that costs four times as much to make, and some are made for every run.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fencepost.errors import UsageError

log = logging.getLogger("fencepost.events")


@dataclass(slots=True, kw_only=True)
class Event:
    """The root of all events."""


@dataclass(slots=True, kw_only=True)
class JobEvent(Event):
    """Something happened to one run of one job."""

    id: int
    job_id: str
    task: str
    queue: str
    attempt: int
    run_count: int


@dataclass(slots=True, kw_only=True)
class JobStarted(JobEvent):
    """A run's body is about to start. ``waited_s``: seconds since the job was due (0 if clocks disagree)."""

    waited_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class JobEnded(JobEvent):
    """A run's outcome has been committed.

    ``act`` is what was asked for (`fencepost.domain.outcome.Settlement.act`: succeed, fail, retry, snooze ...),
    ``state`` what the database made of it (a retry of a job that was cancelled meanwhile ends ``cancelled``). ``error``
    is redacted.
    """

    act: str
    state: str
    seconds: float
    code: str | None = None
    error: str | None = None
    delay_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class LeaseLost(JobEvent):
    """This run no longer owns its job: its writes are refused, its handler was told to stop."""


@dataclass(slots=True, kw_only=True)
class WorkerStarted(Event):
    """A worker process is ready to claim."""

    name: str
    queues: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class WorkerStopped(Event):
    """A worker process has handed everything back and ends."""

    name: str
    reason: str = ""


E = TypeVar("E", bound=Event)


class Observers:
    """Who wants to hear of what."""

    def __init__(self) -> None:
        self._by_type: dict[type[Event], list[Callable[[Any], object]]] = {}
        self._told: dict[type[Event], list[Callable[[Any], object]]] = {}
        """Who hears of events of exactly this type; made when it is first asked for."""

    def on(self, event: type[E], observer: Callable[[E], object]) -> None:
        """Call ``observer`` with every event of this type or below it. Raises UsageError for what can never work."""
        _refuse(event, observer)
        self._by_type.setdefault(event, []).append(observer)
        self._told.clear()

    def wanted(self, event: type[Event]) -> bool:
        """Whether anybody listens, so that the caller need not even build the event."""
        return bool(self._of(event))

    def _of(self, event: type[Event]) -> list[Callable[[Any], object]]:
        told = self._told.get(event)
        if told is None:
            told = self._told[event] = [one for kind in event.__mro__ for one in self._by_type.get(kind, ())]
        return told

    def emit(self, event: Event) -> None:
        """Tell everybody who asked. Never raises, except for Ctrl-C in the main thread.

        An observer's ``sys.exit()`` is its fault like any other: it is called in threads that must not end of it.
        """
        for observer in self._of(type(event)):
            try:
                observer(event)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                    raise
                log.exception("observer %s failed on %s", _name(observer), type(event).__name__)


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _refuse(event: Any, observer: Any) -> None:
    if not (isinstance(event, type) and issubclass(event, Event)):
        message = f"on(...) takes an event class such as fencepost.tasks.events.JobEnded, not {event!r}"
        raise UsageError(message)
    if not callable(observer):
        message = f"an observer must be a function of one event, not {type(observer).__name__}"
        raise UsageError(message)
    if inspect.iscoroutinefunction(observer):
        message = f"observer {observer.__qualname__} must be a plain function: observers are called, not awaited"
        raise UsageError(message)
