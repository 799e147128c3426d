"""What this process holds: the buffer of claimed runs, the slots of each queue, and the bodies that run in them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from fencepost.domain.outcome import Lost, Outcome, Released, Stopped
from fencepost.worker.board import Board, RunKey
from fencepost.worker.child.attempt import Attempts, Ended
from fencepost.worker.child.held import Held
from fencepost.worker.child.loop import AsyncBodies
from fencepost.worker.child.processes import ProcessBodies
from fencepost.worker.child.threads import ThreadBodies

AHEAD_S = 0.25
"""Claimed ahead of the slots: no more than is finished in this time (SPEC W2)."""

_MOST_AHEAD = 2000
_NOT_AHEAD_S = 60.0
"""So long after a run that must not run twice its queue claims for free slots only (SPEC W2)."""

OVERSTAYED_S = 2.0
"""What was claimed ahead and has not begun by then goes back: a body turned out to be longer than those before it."""

_CAREFUL_S = 10.0
"""So long after that its queue claims for free slots only."""


class Lane:
    """One queue: its slots, what waits for one, and how long its jobs take."""

    __slots__ = ("ahead_from", "average_s", "name", "processes", "running", "slots", "threads", "waiting")

    def __init__(self, name: str, slots: int) -> None:
        self.name, self.slots = name, slots
        self.running = 0
        self.waiting: deque[Held] = deque()
        self.average_s: float | None = None
        self.ahead_from = 0.0
        self.threads: ThreadBodies | None = None
        self.processes: ProcessBodies | None = None

    def free(self) -> int:
        """Slots that nothing runs in or waits for."""
        return max(0, self.slots - self.running - len(self.waiting))

    def ahead(self) -> int:
        """How many more than these to claim where jobs are short."""
        if self.average_s is None or self.average_s >= AHEAD_S or time.monotonic() < self.ahead_from:
            return 0
        ahead = min(_MOST_AHEAD, int(AHEAD_S / max(self.average_s, 1e-4)) * self.slots)
        if 2 * len(self.waiting) > ahead:  # a half at once: a claim costs the same for one job as for many
            return 0
        return max(0, self.slots + ahead - self.running - len(self.waiting) - self.free())

    def be_careful(self, seconds: float) -> None:
        """Claim for free slots only, for so long."""
        self.ahead_from = max(self.ahead_from, time.monotonic() + seconds)

    def learn(self, seconds: float) -> None:
        """Remember how long a body took."""
        self.average_s = seconds if self.average_s is None else self.average_s * 0.9 + seconds * 0.1


class Room:
    """Dispatches under one lock; a body that ends makes room for the next at once.

    ``settle`` takes what has ended, ``wanted`` hears that there is something `to_mark`; from any thread.
    """

    def __init__(
        self,
        queues: dict[str, int],
        board: Board,
        attempts: Attempts,
        app_path: str | None,
        settle: Callable[[Held, Outcome, str | None], None],
        started: Callable[[Held], None],
        wanted: Callable[[], None],
    ) -> None:
        self.lanes = {name: Lane(name, slots) for name, slots in queues.items()}
        self.held: dict[tuple[int, int], Held] = {}
        self._board, self._attempts = board, attempts
        self._settle, self._started = settle, started
        self._wanted = wanted
        self._to_mark: deque[Held] = deque()
        self._lock = threading.Lock()
        self.draining = False
        """Nothing begins any more."""
        self._blocked: set[str] = set()
        """Queues that gave async jobs while a handler blocked the loop: not claimed from until it runs again."""
        self.bodies = AsyncBodies(attempts, self._ended, self._begin)
        for lane in self.lanes.values():
            lane.threads = ThreadBodies(lane.name, lane.slots, attempts, self._ended, self._begin)
            lane.processes = ProcessBodies(
                lane.name, lane.slots, app_path, attempts, self._ended, self._begin, self._refuse, lambda: self.draining
            )

    # ---------------------------------------------------------------------------------------------------- from the clerk

    def quotas(self, *, blocked_loop: bool = False) -> dict[str, int]:
        """How many more each queue may claim; queues that want none are left out.

        The board has a place for every run: free slots come first, what is left is shared by who would claim ahead.
        While a handler blocks the loop nothing is claimed ahead, and nothing where async jobs came since.
        """
        with self._lock:
            if not blocked_loop:
                self._blocked.clear()
            lanes = [lane for name, lane in self.lanes.items() if name not in self._blocked]
            left = self._board.room
            found: dict[str, int] = {}
            for lane in lanes:
                found[lane.name] = min(lane.free(), left)
                left -= found[lane.name]
            eager = [] if blocked_loop else [(lane, ahead) for lane in lanes if (ahead := lane.ahead())]
            share = left // len(eager) if eager else 0
            for lane, ahead in eager:
                found[lane.name] += min(ahead, share)
        return {name: quota for name, quota in found.items() if quota > 0}

    def add(self, runs: list[Held]) -> None:
        """Take claimed runs in, in their order. While draining they only wait, for `take_back`."""
        with self._lock:
            for held in runs:
                self.held[held.fence.id, held.fence.run_count] = held
                lane = self.lanes[held.claimed.queue]
                lane.waiting.append(held)
                if held.careful:
                    lane.be_careful(_NOT_AHEAD_S)
        self.dispatch()

    def overstayed(self) -> list[Held]:
        """What was claimed ahead and waits too long: taken back, so that it runs elsewhere (SPEC W2)."""
        before = time.monotonic() - OVERSTAYED_S
        taken: list[Held] = []
        with self._lock:
            for lane in self.lanes.values():
                if lane.waiting and lane.waiting[0].taken_at < before:
                    taken += lane.waiting
                    lane.waiting.clear()
                    lane.be_careful(_CAREFUL_S)
        return taken

    def forget(self, runs: Iterable[Held]) -> None:
        """Their outcomes are committed, or their leases are lost for good."""
        with self._lock:
            for held in runs:
                self.held.pop((held.fence.id, held.fence.run_count), None)

    def take_back(self, *, blocked_loop: bool = False) -> list[Held]:
        """Runs whose bodies have not begun: all of them, or those that a blocked loop keeps waiting."""
        taken = self.bodies.take_back()
        with self._lock:
            unmarked = [held for held in self._to_mark if not blocked_loop or _is_async(held)]
            for held in unmarked:
                self._to_mark.remove(held)
            taken += unmarked
            for held in taken:
                self.lanes[held.claimed.queue].running -= 1
            for lane in self.lanes.values():
                keep: deque[Held] = deque()
                while lane.waiting:
                    held = lane.waiting.popleft()
                    (taken if not blocked_loop or _is_async(held) else keep).append(held)
                lane.waiting = keep
            if blocked_loop:
                self._blocked |= {held.claimed.queue for held in taken}
        return taken

    def stop(self) -> list[Held]:
        """From now on nothing begins; what has not begun is given back."""
        self.draining = True
        return self.take_back()

    def everything(self) -> list[Held]:
        """All runs that are not settled yet."""
        with self._lock:
            return list(self.held.values())

    def those(self, runs: Iterable[RunKey]) -> list[Held]:
        """Those of these runs that are not settled yet."""
        with self._lock:
            return [held for run in runs if (held := self.held.get(run)) is not None]

    @property
    def waits(self) -> bool:
        """Whether something waits for a slot."""
        return any(lane.waiting for lane in self.lanes.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held."""
        return not self.held

    # ---------------------------------------------------------------------------------------------------------- dispatch

    def dispatch(self) -> None:
        """Start what waits where a slot is free. From any thread."""
        ready: list[Held] = []
        with self._lock:
            if self.draining:
                return
            for lane in self.lanes.values():
                while (held := self._next(lane)) is not None:
                    ready.append(held)
            marks = bool(self._to_mark)
        if marks:
            self._wanted()
        for held in ready:
            self._start(held)

    def to_mark(self) -> list[Held]:
        """For the clerk: runs that have a slot, whose start must be durable before they begin. Each is given out once."""
        with self._lock:
            found = list(self._to_mark)
            self._to_mark.clear()
        due = []
        for held in found:
            if held.why is None and self._board.start(held.at):  # nobody takes it back from here on
                due.append(held)
            else:
                self._refuse(held)
        return due

    def mark_later(self, runs: list[Held]) -> None:
        """They could not be marked: the database is away."""
        with self._lock:
            self._to_mark.extendleft(reversed(runs))

    def marked(self, held: Held) -> None:
        """Its start is durable: it begins."""
        held.marked = True
        self._start(held)

    def not_marked(self, held: Held) -> None:
        """It must not begin: its slot is free again. What becomes of the run is the clerk's."""
        self._free(held)
        self.dispatch()

    def _start(self, held: Held) -> None:
        assert held.task is not None
        lane = self.lanes[held.claimed.queue]
        executor = held.task.policy.executor
        if executor == "async":
            self.bodies.submit(held)
        elif executor == "thread":
            assert lane.threads is not None
            lane.threads.submit(held)
        else:
            assert lane.processes is not None
            lane.processes.submit(held)

    def _begin(self, held: Held) -> bool:
        """In the thread of the body, right before it. False: it must not begin."""
        held.begin(*self._attempts.limit_of(held))
        late = self.draining and not held.marked
        may_begin = not late and (self._board.start(held.at, held.limit_ns(HARD_GRACE_S)) or held.marked)
        if held.why is not None or not may_begin:
            self._refuse(held)
            return False
        self._started(held)
        return True

    def _refuse(self, held: Held, outcome: Outcome | None = None) -> None:
        """It has a slot and must not begin, or cannot: the next one does."""
        held.end()
        self._free(held)
        self._settle(held, outcome or _not_begun(held), None)
        self.dispatch()

    def _ended(self, held: Held, ended: Ended) -> None:
        took = time.monotonic() - (held.started_at or 0.0)
        self._board.limit(held.at, 0)  # the outcome may wait for the database as long as it must
        lane = self.lanes[held.claimed.queue]
        with self._lock:
            if not held.abandoned:
                lane.running -= 1
            lane.learn(took)
            following = self._next(lane)
        self._settle(held, ended.outcome, ended.stats)
        if following is not None:
            self._start(following)
        elif self._to_mark:
            self._wanted()

    def _next(self, lane: Lane) -> Held | None:
        """What has a slot now and may begin. Under the lock."""
        while lane.waiting and lane.running < lane.slots and not self.draining:
            lane.running += 1
            held = lane.waiting.popleft()
            if not held.careful:
                return held
            self._to_mark.append(held)
        return None

    def abandon(self, held: Held) -> None:
        """Its body does not end: give its slot to others. It keeps its lease, so nobody runs beside it."""
        with self._lock:
            if held.abandoned:
                return
            held.abandoned = True
            self.lanes[held.claimed.queue].running -= 1
        self.dispatch()

    def _free(self, held: Held) -> None:
        with self._lock:
            if not held.abandoned:
                self.lanes[held.claimed.queue].running -= 1

    def close(self) -> None:
        """End what is idle, and every job process."""
        self.bodies.close()
        for lane in self.lanes.values():
            if lane.threads is not None:
                lane.threads.close()
            if lane.processes is not None:
                lane.processes.close()


HARD_GRACE_S = 5.0
"""After a body's limit: first it is told, then, under a supervisor, its process is ended."""


def _is_async(held: Held) -> bool:
    return held.task is not None and held.task.policy.executor == "async"


def _not_begun(held: Held) -> Outcome:
    if held.why == "cancel":
        return Stopped()
    if held.why == "lost":
        return Lost()
    return Released("not started")
