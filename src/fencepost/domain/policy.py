"""What a task says about its runs: validated once, when the task is declared (SPEC R2, table of defaults)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fencepost.domain.backoff import Backoff, Exponential, curve
from fencepost.domain.durations import Duration
from fencepost.domain.failure import FINAL_CODES
from fencepost.domain.fields import duration, one_of, shown, truth, whole, word
from fencepost.domain.limits import ATTEMPTS, CODE_CHARS, NAME_CHARS, PRIORITY
from fencepost.errors import UsageError

__all__ = ["Backoff", "Exponential", "RetryPolicy", "TaskPolicy", "check_ttl"]

DAY = 86_400.0
ON_LOST = ("retry", "fail", "in_doubt")
CODE_ACTIONS = ("retry", "fail", "skip", "in_doubt")
_MOST_CODES = 200
_MOST_VERSIONS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and when a failed attempt is followed by another.

    ``max_attempts``: runs that count, the first included. ``backoff``: "30s, 2m, 10m, 30m", a sequence, `Exponential` or
    a function attempt -> seconds; the last entry repeats. ``jitter``: the share by which waits spread. ``within``: no
    retry begins later than this after the job's creation. ``codes``: error code -> "retry", "fail", "skip" or
    "in_doubt", whatever the error's class says; attempts and time budget still bind.
    Raises `UsageError` that names the field.
    """

    max_attempts: int = 5
    backoff: Backoff = "30s, 2m, 10m, 30m"
    jitter: float = 0.2
    within: Duration | None = None
    codes: Mapping[str, str] = field(default_factory=dict)
    wait: Callable[[int], float] = field(init=False, repr=False, compare=False)
    within_s: float | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole("max_attempts", self.max_attempts, 1, ATTEMPTS)
        if not _is_share(self.jitter):
            message = f"jitter must be a share from 0 to below 1, not {shown(self.jitter)}"
            raise UsageError(message)
        _check_codes(self.codes)
        object.__setattr__(self, "codes", MappingProxyType(dict(self.codes)))
        object.__setattr__(self, "wait", curve(self.backoff))
        object.__setattr__(self, "within_s", None if self.within is None else duration("within", self.within, above=0))


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 and math.isfinite(value)


def _check_codes(codes: Any) -> None:
    if not isinstance(codes, Mapping) or len(codes) > _MOST_CODES:
        message = f"codes must map at most {_MOST_CODES} error codes to one of {', '.join(CODE_ACTIONS)}"
        raise UsageError(message)
    for code, action in codes.items():
        word("codes: each code", code, CODE_CHARS)
        one_of(f"codes: the action for {code}", action, CODE_ACTIONS)
        if code in FINAL_CODES:
            message = (
                f"codes: what becomes of {code} is fixed; a retry of it could not help or is the database's to decide"
            )
            raise UsageError(message)


class TaskPolicy:
    """Everything that a task's declaration says of its runs; immutable. Durations are kept in seconds (``*_s``).

    Raises `UsageError` that names the task and the field.
    """

    __slots__ = (
        "_sealed", "at_most_once", "data", "dedup_s", "executor", "keep_failed_s", "keep_succeeded_s", "lease_s", "max_crashes",
        "max_duration_s", "name", "on_lost", "priority", "queue", "retry", "timeout_s", "ttl_s", "version",
    )  # fmt: skip

    def __init__(
        self,
        *,
        name: str,
        queue: str = "default",
        priority: int = 0,
        retry: Any = None,
        timeout: Duration | None = None,
        max_duration: Duration = DAY,
        heartbeat_ttl: Duration | None = None,
        lease: Duration | None = None,
        executor: str = "async",
        at_most_once: bool = False,
        on_lost: str = "retry",
        max_crashes: int = 3,
        dedup_window: Duration = DAY,
        keep_succeeded: Duration = 14 * DAY,
        keep_failed: Duration = 90 * DAY,
        version: int = 1,
        data: str = "reference",
    ) -> None:
        say = f"task {shown(name)}: "
        self.name = word("the task's name", name, NAME_CHARS)
        self.queue = word(say + "queue", queue, NAME_CHARS)
        self.priority = whole(say + "priority", priority, -PRIORITY, PRIORITY)
        if retry is not None and not isinstance(retry, RetryPolicy):
            message = f"{say}retry must be a RetryPolicy, not {type(retry).__name__}"
            raise UsageError(message)
        self.retry: RetryPolicy = retry or RetryPolicy()
        self.timeout_s = None if timeout is None else duration(say + "timeout", timeout, above=0)
        self.max_duration_s = duration(say + "max_duration", max_duration, above=0)
        self.ttl_s = None if heartbeat_ttl is None else duration(say + "heartbeat_ttl", heartbeat_ttl, above=0)
        self.lease_s = None if lease is None else duration(say + "lease", lease, above=0)
        self.executor = one_of(say + "executor", executor, ("async", "thread", "process"))
        self.at_most_once = truth(say + "at_most_once", at_most_once)
        self.on_lost = one_of(say + "on_lost", on_lost, ON_LOST)
        self.max_crashes = whole(say + "max_crashes", max_crashes, 1, ATTEMPTS)
        self.dedup_s = duration(say + "dedup_window", dedup_window)
        self.keep_succeeded_s = duration(say + "keep_succeeded", keep_succeeded)
        self.keep_failed_s = duration(say + "keep_failed", keep_failed)
        self.version = whole(say + "version", version, 1, _MOST_VERSIONS)
        self.data = one_of(say + "data", data, ("reference", "snapshot"))
        self._fit(say)
        object.__setattr__(self, "_sealed", True)

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_sealed", False):
            message = f"a task's policy does not change once it is declared ({name})"
            raise AttributeError(message)
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<TaskPolicy {self.name} v{self.version} on {self.queue}>"

    def _fit(self, say: str) -> None:
        if self.lease_s is not None:
            if self.ttl_s is not None:
                message = f"{say}give lease or heartbeat_ttl, not both: a plain lease is not renewed by beats"
                raise UsageError(message)
            if self.timeout_s is None or self.timeout_s >= self.lease_s:
                message = f"{say}lease needs a timeout that is shorter than it, since no beat renews it"
                raise UsageError(message)
        if self.timeout_s is not None and self.timeout_s > self.max_duration_s:
            message = f"{say}timeout must not be longer than max_duration"
            raise UsageError(message)

    @property
    def max_attempts(self) -> int:
        """Runs that count."""
        return self.retry.max_attempts

    @property
    def lease_ttl_s(self) -> float | None:
        """The ttl of its leases; None: the worker's."""
        return self.lease_s if self.lease_s is not None else self.ttl_s

    @property
    def runs_once(self) -> bool:
        """Whether the start of the body must be written before it runs (SPEC W12, W3)."""
        return self.at_most_once or self.retry.max_attempts == 1


def check_ttl(what: str, ttl_s: float, interval_s: float) -> None:
    """A lease must outlive two beats, or one late beat loses it. Raises UsageError."""
    if ttl_s <= 2 * interval_s:
        message = (
            f"{what} heartbeat_ttl ({ttl_s:g} s) must be longer than twice heartbeat_interval ({interval_s:g} s); "
            "raise the one or lower the other"
        )
        raise UsageError(message)
