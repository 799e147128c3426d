"""fencepost: background jobs on PostgreSQL that survive crashes.

Names are imported on first use, so that a program which needs one part (the supervisor) does not load the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fencepost.version import __version__

if TYPE_CHECKING:
    from fencepost import errors as errors
    from fencepost.app import App as App
    from fencepost.domain.control import Cancelled as Cancelled
    from fencepost.domain.control import InDoubt as InDoubt
    from fencepost.domain.control import Permanent as Permanent
    from fencepost.domain.control import RateLimited as RateLimited
    from fencepost.domain.control import RetryLater as RetryLater
    from fencepost.domain.control import Skip as Skip
    from fencepost.domain.control import Snooze as Snooze
    from fencepost.domain.job import Answer as Answer
    from fencepost.domain.job import Enqueued as Enqueued
    from fencepost.domain.policy import Exponential as Exponential
    from fencepost.domain.policy import RetryPolicy as RetryPolicy
    from fencepost.domain.states import State as State
    from fencepost.tasks.context import JobContext as JobContext
    from fencepost.tasks.context import current_job as current_job

_HOME = {
    "Answer": "fencepost.domain.job",
    "App": "fencepost.app",
    "Cancelled": "fencepost.domain.control",
    "Enqueued": "fencepost.domain.job",
    "Exponential": "fencepost.domain.policy",
    "InDoubt": "fencepost.domain.control",
    "JobContext": "fencepost.tasks.context",
    "Permanent": "fencepost.domain.control",
    "RateLimited": "fencepost.domain.control",
    "RetryLater": "fencepost.domain.control",
    "RetryPolicy": "fencepost.domain.policy",
    "Skip": "fencepost.domain.control",
    "Snooze": "fencepost.domain.control",
    "State": "fencepost.domain.states",
    "current_job": "fencepost.tasks.context",
}

__all__ = [
    "Answer",
    "App",
    "Cancelled",
    "Enqueued",
    "Exponential",
    "InDoubt",
    "JobContext",
    "Permanent",
    "RateLimited",
    "RetryLater",
    "RetryPolicy",
    "Skip",
    "Snooze",
    "State",
    "__version__",
    "current_job",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("fencepost.errors")
    home = _HOME.get(name)
    if home is None:
        message = f"module 'fencepost' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
