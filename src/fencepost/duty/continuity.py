"""Whether the database's service and clock were continuous, so that a stale lease means a lost worker (SPEC C11).

A lease is judged by the database's clock alone. That is wrong after the database itself was away: while it was down
nobody could beat, and every lease looks stale. So the reaper asks for evidence at each turn and compares it with what
it, or the leader before it, last found good:

    the server was started      pg_postmaster_start_time() is another one
    the timeline changed        a failover or a restore
    the clock jumped            it moved otherwise than our own clock between two looks
    our own connection broke    a crash restart keeps the start time; a frozen server answers nobody

After such an event live workers get two beat intervals. Until then only those leases count as lost that were stale
already when all was last known to be good: the time since then is added to every ttl. Nothing is waited for when no
worker was alive then, or when each of them has beaten again. At a take-over without such an event there is no wait
at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fencepost.store.views import ServiceRecord

PATIENCE = 2
"""Beat intervals that live workers get after an event (SPEC C11)."""

_ALIVE = 6
"""Beat intervals within which a worker must have beaten to have been alive: the default ttl."""

_ROUNDS = 3
"""So often may new events prolong the wait; a database that restarts for ever must not keep lost jobs for ever."""


def boottime() -> float:
    """Seconds of our own clock that go on while the machine sleeps; never set by anybody."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the database. ``sent`` and ``received`` are our own clock; ``beats`` the workers' last beats."""

    started_at: datetime
    timeline: int | None
    now: datetime
    sent: float
    received: float
    beats: Sequence[datetime] = ()


class Continuity:
    """Judges one look after the other; one object a process, kept while others lead."""

    def __init__(self, interval_s: float, *, own: Callable[[], float] = boottime) -> None:
        self._interval = interval_s
        self._own = own
        self._good: ServiceRecord | None = None
        self._service: tuple[datetime, int | None] | None = None
        self._offset: tuple[float, float] | None = None
        self._broken = False
        self._event: str | None = None
        self._event_at: datetime | None = None
        self._waits_from = 0.0
        self._waits_until = 0.0

    @property
    def record(self) -> ServiceRecord | None:
        """What was last found good."""
        return self._good

    @property
    def waiting_because(self) -> str | None:
        """The event that live workers are given time for; None when leases are judged as they are."""
        return self._event

    def inherit(self, record: ServiceRecord | None) -> None:
        """Take over the evidence of the leader before us. A gap without an event is no reason to wait."""
        if record is not None and (self._good is None or record.at > self._good.at):
            self._good = record
            self._service = (record.started_at, record.timeline)

    def connection_broke(self) -> None:
        """Our own connection was lost or did not answer: perhaps nobody's did."""
        self._broken = True
        self._offset = None  # the next look is the first of a new comparison; this event covers the gap

    def judge(self, look: Look) -> float:
        """The seconds to add to every ttl now; 0: judge leases as they are."""
        event = self._what_happened(look)
        self._service = (look.started_at, look.timeline)
        self._offset = _offset(look)
        self._broken = False
        if self._good is None:
            event = None  # nobody ever led here, so nobody's lease depends on what was before
        if event is not None:
            self._begin(event, look)
        if self._event is not None and not self._is_over(look):
            assert self._good is not None
            return max(0.0, (look.now - self._good.at).total_seconds())
        self._event = None
        self._good = ServiceRecord(started_at=look.started_at, timeline=look.timeline, at=look.now)
        return 0.0

    def _what_happened(self, look: Look) -> str | None:
        if self._service is not None:
            started_at, timeline = self._service
            if look.started_at != started_at:
                return "the server was started"
            if None not in (timeline, look.timeline) and timeline != look.timeline:
                return "the timeline changed"
        if self._offset is not None and _jumped(self._offset, _offset(look), self._interval / 2):
            return "the database's clock jumped"
        return "the connection was lost" if self._broken else None

    def _begin(self, event: str, look: Look) -> None:
        now = self._own()
        if self._event is None:
            self._waits_from = now
        last = self._waits_from + _ROUNDS * PATIENCE * self._interval
        self._waits_until = min(now + PATIENCE * self._interval, last)
        self._event = event
        self._event_at = look.started_at if event == "the server was started" else look.now

    def _is_over(self, look: Look) -> bool:
        return self._own() >= self._waits_until or not self._silent(look)

    def _silent(self, look: Look) -> bool:
        """Whether some worker was alive when all was good and has not beaten since the event."""
        assert self._good is not None and self._event_at is not None  # noqa: PT018 - both are set by _begin
        alive_from = self._good.at - timedelta(seconds=_ALIVE * self._interval)
        return any(alive_from <= beat < self._event_at for beat in look.beats)


def _offset(look: Look) -> tuple[float, float]:
    """Database clock minus ours, as bounds: the answer was made between sending and receiving."""
    now = look.now.timestamp()
    return now - look.received, now - look.sent


def _jumped(before: tuple[float, float], after: tuple[float, float], tolerance: float) -> bool:
    return after[0] > before[1] + tolerance or after[1] < before[0] - tolerance
