"""The clerk: the supervisor's one database connection. Beats for all children, rescues of the dead, hand-backs.

It never decides about processes, and the watch never waits for the network: they exchange orders and events. A rescue
is repeated until it came through; a beat that failed is simply followed by the next.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fencepost.domain.job import Fence
from fencepost.domain.outcome import Settlement
from fencepost.errors import FencepostError
from fencepost.sql.catalog import Catalog
from fencepost.store import faults, jobs, workers
from fencepost.store.wire import Wire
from fencepost.worker import words
from fencepost.worker.board import EntryState, boot_ns
from fencepost.worker.pulse import Answers, beat_boards, shortest_ms
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervisor.processes import Child

log = logging.getLogger("fencepost.supervisor")

_GLANCE_S = 1.0
"""How often it looks whether some lease wants beats more often than the worker's own interval."""

_EARLY_S = 0.5
"""A child that met trouble claims nothing until a beat has passed; so often at most is one sent early for it."""

_RETRY_S = 0.25
_SOON_S = 0.05


@dataclass(frozen=True, slots=True)
class Rescue:
    """A child is dead and its group gone: what of its board goes which way (see `store.jobs.rescue_process`)."""

    token: int
    started: tuple[int, ...] = ()
    overdue: tuple[int, ...] = ()
    interrupted: tuple[int, ...] = ()
    seen_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class HandBack:
    """A child lives but its threads do not run: what it has not started goes back (worker.md, trap 11)."""

    child: Child


@dataclass(frozen=True, slots=True)
class Outage:
    """Event: no good beat for longer than the ttl."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fatal:
    """Event: an error that no retry can mend."""

    error: FencepostError


Order = Rescue | HandBack
Event = Outage | Fatal


class Clerk(threading.Thread):
    """Args: ``living`` gives the children to beat for; ``tell`` takes events, from this thread."""

    def __init__(
        self,
        dsn: str,
        sql: Catalog,
        settings: WorkerSettings,
        *,
        living: Callable[[], Sequence[Child]],
        tell: Callable[[Event], None],
    ) -> None:
        super().__init__(name="fencepost-clerk", daemon=True)
        self._sql, self._settings = sql, settings
        self._living, self._tell = living, tell
        self._wire = Wire(dsn, deadline=settings.call_deadline, name="supervisor")
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._open: deque[Order] = deque()
        self._ending = False
        self._troubled_since: float | None = None
        self._good_at_ns = boot_ns()
        self._outage_told = False
        self._beat_at = self._tried_at = time.monotonic()

    # ------------------------------------------------------------------------------------------------ from the watch

    def order(self, order: Order) -> None:
        """Do this soon. From any thread."""
        self._orders.put(order)

    def finish(self, within: float) -> bool:
        """Do what is ordered, then end; whether it was all done in so many seconds. What was not is left to the ttl."""
        self._orders.put(None)
        self.join(within)
        return not self.is_alive()

    # --------------------------------------------------------------------------------------------------- the thread

    def run(self) -> None:
        """Work until `finish`. Nothing that a call raises ends the thread."""
        while not (self._ending and not self._open):
            self._take_orders()
            self._work()
            self._judge_outage()
        self._wire.close()

    def _take_orders(self) -> None:
        wait = 0.0 if self._ending else self._until_next()
        try:
            while True:
                order = self._orders.get(timeout=wait) if wait > 0 else self._orders.get_nowait()
                wait = 0.0
                if order is None:
                    self._ending = True
                else:
                    self._open.append(order)
        except queue.Empty:
            if self._ending and self._open:
                time.sleep(_SOON_S if self._troubled_since is None else _RETRY_S)

    def _until_next(self) -> float:
        until_beat = max(0.0, self._beat_at - time.monotonic())
        return min(until_beat, _RETRY_S if self._open or self._troubled_since is not None else _GLANCE_S)

    def _work(self) -> None:
        """The beat first, if it is due: it is what time presses for."""
        if not self._ending:
            self._beat_when_due()
        for _ in range(len(self._open)):
            order = self._open.popleft()
            if not self._attempt(lambda order=order: self._carry_out(order)):  # type: ignore[misc]
                self._open.appendleft(order)
                return

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, Rescue):
            self._rescue(order)
        else:
            self._hand_back(order.child)
            order.child.hand_back_asked = False

    def _attempt(self, call: Callable[[], None]) -> bool:
        """Run one call; log the first failure of an episode and its end. False: it must be repeated."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - a clerk that ends loses every lease
            self._wire.close()
            if not faults.is_transient(error):
                self._tell(Fatal(faults.translate(error)))
            if self._troubled_since is None:
                self._troubled_since = time.monotonic()
                log.warning("the database cannot be reached, trying again: %s", faults.explain(error))
            return False
        if self._troubled_since is not None:
            log.info("the database answers again after %.1f s", time.monotonic() - self._troubled_since)
            self._troubled_since = None
        return True

    # --------------------------------------------------------------------------------------------------------- beats

    def _beat_when_due(self) -> None:
        now = time.monotonic()
        children = [child for child in self._living() if child.token]
        usual = self._settings.heartbeat_interval
        wanted = shortest_ms((child.board for child in children), self._settings.beat_ms) / 1000
        if wanted < usual:
            self._beat_at = min(self._beat_at, now + wanted / 2)
        if any(child.board.asked_ns > self._good_at_ns for child in children):
            self._beat_at = min(self._beat_at, self._tried_at + _EARLY_S)
        if now < self._beat_at:
            return
        self._tried_at = now
        self._beat_at = now + min(usual, wanted)
        if not self._attempt(lambda: self._beat(children)):
            self._beat_at = time.monotonic() + min(_GLANCE_S, usual / 5)
            for child in children:
                child.tell(words.Trouble())  # nobody would keep what it claims now

    def _beat(self, children: Iterable[Child]) -> None:
        """One statement for all children that show life."""
        patience = int(self._settings.patience * 1e9)
        alive = {child.token: child for child in children if boot_ns() - child.alive_at < patience}
        answers = beat_boards(self._wire, self._sql, {token: child.board for token, child in alive.items()})
        self._good_at_ns = min((said.sent_ns for said in answers.values()), default=boot_ns())
        self._outage_told = False
        for token, said in answers.items():
            self._pass_on(alive[token], said)

    def _pass_on(self, child: Child, said: Answers) -> None:
        child.tell(words.Beaten(said.sent_ns, said.renewed))
        if said.cancel:
            child.tell(words.CancelJobs(said.cancel))
        if said.lost:
            child.tell(words.LostJobs(said.lost))

    def _judge_outage(self) -> None:
        away = (boot_ns() - self._good_at_ns) / 1e9
        if away > self._settings.heartbeat_ttl and not self._outage_told and not self._ending:
            self._outage_told = True
            self._tell(Outage(away))

    # ------------------------------------------------------------------------------------------ rescues and hand-backs

    def _rescue(self, order: Rescue) -> None:
        """Take back all, until the database knows of nothing more under that token.

        An outcome that the dead process sent last may hold its row for a moment.
        """
        rescued = self._wire.run(
            jobs.rescue_process(
                self._sql,
                order.token,
                started=order.started,
                overdue=order.overdue,
                interrupted=order.interrupted,
            )
        )
        if rescued:
            log.info(
                "took back %d jobs of a dead worker process after %.3f s",
                len(rescued),
                time.monotonic() - order.seen_at,
            )
        if self._wire.run(jobs.mine(self._sql, order.token)) != []:
            if time.monotonic() - order.seen_at < self._settings.heartbeat_ttl:
                self._open.append(order)
            return
        self._wire.run(workers.unregister(self._sql, order.token))

    def _hand_back(self, child: Child) -> None:
        """Fenced on both sides: what was claimed before the recall and had not started, the child never starts."""
        recalled = child.board.recall()
        entries = [
            entry
            for entry in child.board.snapshot()
            if entry.state is EntryState.CLAIMED and entry.since_ns < recalled and entry.key not in child.handed_back
        ]
        if not entries:
            return
        back = Settlement(act="release")
        items = [(Fence(entry.id, entry.run_count, child.token), back) for entry in entries]
        answers = self._wire.run(jobs.settle(self._sql, items))
        gone = [(fence.id, fence.run_count) for fence, told in answers.items() if told.answer != "busy"]
        child.handed_back.update(gone)
        if gone:
            log.warning("%s does not get on: took back %d jobs it had not started", child.describe(), len(gone))
            child.tell(words.LostJobs(tuple(gone)))
