"""A worker's options, checked before anything starts (SPEC W1 and the table of defaults)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fencepost.domain.durations import Duration, seconds
from fencepost.domain.limits import NAME_CHARS
from fencepost.errors import UsageError

MARGIN = 0.9
"""The share of a lease that its holder trusts; past it the handler is cancelled, before anybody may start the job."""

MAX_SLOTS = 4096
MAX_PROCESSES = 256
_AHEAD = 4096
_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Times are seconds. Make one with `create`, which checks everything.

    ``queues``: name to slots, in each process. ``heartbeat_ttl`` is for tasks without one of their own.
    ``on_outage``: when the database has been away longer than the ttl, all runs are given up either way; then ``exit``
    ends the worker with code 1, ``stay`` lets it live on and claim again after a good beat (SPEC W5).
    """

    queues: Mapping[str, int] = field(default_factory=lambda: {"default": 1})
    heartbeat_interval: float = 5.0
    heartbeat_ttl: float = 30.0
    poll_interval: float = 1.0
    shutdown_timeout: float = 10.0
    processes: int = 1
    on_outage: Literal["exit", "stay"] = "exit"
    notify: bool = True
    fair: bool = False

    @classmethod
    def create(
        cls,
        *,
        queues: Mapping[str, int] | Sequence[str] | str = ("default",),
        slots: int = 1,
        **options: Any,
    ) -> WorkerSettings:
        """Check and build. ``queues``: a name, names (each with ``slots``), or names with their own slots.

        Durations may be seconds, a timedelta or text such as "30s". Raises `UsageError` that names the field.
        """
        unknown = sorted(set(options) - set(cls.__dataclass_fields__))
        if unknown:
            known = ", ".join(("slots", *cls.__dataclass_fields__))
            raise UsageError(f"a worker has no option {unknown[0]!r}; it has {known}")
        for name in _DURATIONS:
            if name in options:
                options[name] = _duration(name, options[name])
        return cls(queues=_queues(queues, slots), **options).validated()

    def validated(self) -> WorkerSettings:
        """Itself, or `UsageError` with one sentence that names the field and what to do."""
        _check_queues(self.queues)
        for name, (least, most) in _DURATIONS.items():
            value = getattr(self, name)
            if _duration(name, value) != value or not least <= value <= most:
                raise UsageError(f"{name} must be between {least:g} and {most:g} seconds, not {value}")
        if self.heartbeat_ttl <= 2 * self.heartbeat_interval:
            raise UsageError(
                f"heartbeat_ttl ({self.heartbeat_ttl:g} s) must be more than twice heartbeat_interval "
                f"({self.heartbeat_interval:g} s), or one late beat loses every lease; raise the one or lower the other"
            )
        _whole("processes", self.processes, MAX_PROCESSES)
        if self.on_outage not in ("exit", "stay"):
            raise UsageError(f"on_outage must be 'exit' or 'stay', not {self.on_outage!r}")
        for name in ("notify", "fair"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} must be True or False, not {getattr(self, name)!r}")
        return self

    @property
    def slots(self) -> int:
        """Jobs at once in one process, over all queues."""
        return sum(self.queues.values())

    @property
    def entries(self) -> int:
        """How many runs one process may hold: running, claimed ahead, and ended but not yet written."""
        return _AHEAD + 2 * self.slots

    @property
    def call_deadline(self) -> float:
        """How long one call to the database may take: a beat that hangs must leave time for the next."""
        return min(self.heartbeat_ttl / 3, 10.0)

    @property
    def beat_ms(self) -> int:
        """The beat interval as the board has it."""
        return max(1, int(self.heartbeat_interval * 1000))

    @property
    def patience(self) -> float:
        """How long a child may show no life and still be beaten.

        At most one beat: a frozen one keeps its leases for this and a ttl. At least two looks: a debugger stops a
        process for a moment.
        """
        return self.heartbeat_interval

    @property
    def look(self) -> float:
        """How often the supervisor looks at its children."""
        return min(0.25, self.heartbeat_interval / 4)

    def to_json(self) -> str:
        """Text for the child."""
        return json.dumps(asdict(self) | {"queues": dict(self.queues)})

    @classmethod
    def from_json(cls, text: str) -> WorkerSettings:
        """The settings that `to_json` wrote."""
        return cls(**json.loads(text)).validated()


_DURATIONS = {
    "heartbeat_interval": (0.05, 3600.0),
    "heartbeat_ttl": (0.2, _DAY),
    "poll_interval": (0.01, 3600.0),
    "shutdown_timeout": (0.0, 7 * _DAY),
}
"""Name to the least and most that makes sense."""


def _duration(name: str, value: Duration) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def _queues(queues: Mapping[str, int] | Sequence[str] | str, slots: int) -> dict[str, int]:
    _whole("slots", slots, MAX_SLOTS)
    if isinstance(queues, str):
        queues = [queues]
    if isinstance(queues, Mapping):
        return dict(queues)
    try:
        names = list(queues)
        found = dict.fromkeys(names, slots)
    except TypeError:
        raise UsageError(f"queues must be names, or names with their slots, not {type(queues).__name__}") from None
    if len(found) != len(names):
        raise UsageError("queues names a queue twice; name each once")
    return found


def _check_queues(queues: Mapping[Any, Any]) -> None:
    if not queues:
        raise UsageError("queues is empty: name at least one queue to serve")
    for name, slots in queues.items():
        if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARS or not name.isprintable():
            raise UsageError(
                f"queues: a queue's name must be printable text of at most {NAME_CHARS} characters, not {name!r:.80}"
            )
        _whole(f"slots of queue {name!r}", slots, MAX_SLOTS)
    if sum(queues.values()) > MAX_SLOTS:
        raise UsageError(f"queues: {sum(queues.values())} slots in one process are too many; at most {MAX_SLOTS}")


def _whole(name: str, value: Any, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"{name} must be a whole number between 1 and {most}, not {value!r:.40}")
