"""One worker process from its first claim to its last outcome; the same under a supervisor and embedded in a program."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.errors import FencepostError
from fencepost.tasks.events import WorkerStarted, WorkerStopped
from fencepost.worker.board import Board, Phase, RunKey, boot_ns
from fencepost.worker.child.attempt import Attempts
from fencepost.worker.child.clerk import Clerk
from fencepost.worker.child.held import CANCEL, LOST, RELEASE, TIMEOUT, Held
from fencepost.worker.child.reports import Reports
from fencepost.worker.child.room import Room
from fencepost.worker.child.wake import Wakeup
from fencepost.worker.pulse import Answers
from fencepost.worker.settings import MARGIN, WorkerSettings

if TYPE_CHECKING:
    from fencepost.app import App

log = logging.getLogger("fencepost.worker")

_TICK_S = 0.05
_LOOK_S = 0.1
_SWALLOWED_S = 5.0
"""A body that was told to end and does not gives up its slot after so long; it keeps its lease."""

_THREAD_GRACE_S = 1.0
"""So long a thread may take to heed its time limit; and its neighbours to end, when it does not."""

_HASTY_S = 1.0
_STALLED_NS = 500_000_000


class Runtime:
    """Introduces board, room and clerk to each other, and watches deadlines.

    ``supervised``: somebody may end this process for a body that cannot be stopped. ``app_path`` None: process tasks
    cannot run here.
    """

    def __init__(
        self, app: App, settings: WorkerSettings, *, dsn: str, board: Board, app_path: str | None, supervised: bool
    ) -> None:
        self.app, self.settings, self.dsn, self.board = app, settings, dsn, board
        self.token = secrets.randbits(62) | 1
        self._supervised = supervised
        redact = app.redactor.text
        app.classifier.redact = redact
        attempts = Attempts(app.middleware, app.classifier, redact)
        reports = Reports(app.observers)
        self.clerk = Clerk(
            dsn,
            app.catalog,
            settings,
            registry=app.registry,
            reports=reports,
            board=board,
            token=self.token,
            loop_age=self._loop_age,
            failed=self._fail,
        )
        self.room = Room(
            dict(settings.queues),
            board,
            attempts,
            app_path,
            settle=self.clerk.settle,
            started=reports.started,
            wanted=self.clerk.wake,
        )
        self.clerk.room = self.room
        self._wakeup = Wakeup(dsn, app.catalog.schema, self.clerk.wake) if settings.notify else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_tick = time.monotonic()
        self._over = threading.Event()
        self._drain_at: float | None = None
        self._released = False
        self._stuck = False
        self.heard_ns = 0
        """Until when everything that the supervisor said has been heard; 0: nobody speaks, a pulse of our own beats."""
        self._good_ns = self._looked_ns = boot_ns()
        self._hold_ns = 0
        self._silence_ns = int(min(settings.heartbeat_ttl * MARGIN, 3 * settings.heartbeat_interval) * 1e9)
        self._lock = threading.Lock()
        self.error: FencepostError | None = None
        self.gave_up = False
        self.on_over: Callable[[], object] | None = None

    # -------------------------------------------------------------------------------------------------------------- life

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to claim. ``loop`` runs the async handlers; call in its thread."""
        self._loop = loop
        self.room.bodies.bind(loop)
        self.board.open(self.token)
        self.board.enter(Phase.WORKING)
        self._tick()
        self.clerk.start()
        threading.Thread(target=self._watch, name="fencepost-watch", daemon=True).start()
        if self._wakeup is not None:
            self._wakeup.start()
        self.app.observers.emit(WorkerStarted(name=self.app.name, queues=tuple(self.settings.queues)))

    @property
    def is_over(self) -> bool:
        """Whether everything is written or given up."""
        return self._over.is_set()

    def wait_over(self, within: float | None = None) -> bool:
        """Wait until it is over; not from the loop."""
        return self._over.wait(within)

    def drain(self, *, now: bool = False, grace: float | None = None) -> None:
        """Stop claiming, let bodies end within the shutdown timeout, hand back the rest. From any thread; again is harmless."""
        with self._lock:
            wait = 0.0 if now else (self.settings.shutdown_timeout if grace is None else grace)
            ends = time.monotonic() + wait
            self._drain_at = ends if self._drain_at is None else min(self._drain_at, ends)
        self.clerk.claiming = False
        self.board.enter(Phase.DRAINING)
        for held in self.room.everything():
            held.stopping = True
        self.clerk.hand_back_waiting()
        self.clerk.wake()

    def quiet(self) -> None:
        """Stop claiming; what runs goes on."""
        self.clerk.claiming = False

    def give_up(self) -> None:
        """The database has been away longer than the ttl: every lease must be taken for lost (SPEC W5)."""
        self.gave_up = True
        self.clerk.pulse_good = False
        for held in self.room.everything():
            held.tell(LOST)

    # ------------------------------------------------------------------------------------------------------------- beats

    def on_answers(self, said: Answers) -> None:
        """A beat came back; from the pulse's thread."""
        self.on_beat(said.sent_ns, said.renewed)
        self.on_cancel(said.cancel)
        self.on_lost(said.lost)

    def on_beat(self, sent_ns: int, runs: tuple[RunKey, ...]) -> None:
        """These leases were renewed; and the database answers."""
        self._good_ns = max(self._good_ns, sent_ns)
        if sent_ns > self.board.asked_ns:
            self.clerk.pulse_good = True
        for held in self.room.those(runs):
            held.beaten_ns = max(held.beaten_ns, sent_ns)

    def on_trouble(self) -> None:
        """A beat failed: nothing is claimed until one is answered (SPEC W4)."""
        self.clerk.pulse_good = False

    def on_cancel(self, runs: tuple[RunKey, ...]) -> None:
        """Somebody asked for the end of these."""
        for held in self.room.those(runs):
            held.tell(CANCEL)

    def on_lost(self, runs: tuple[RunKey, ...]) -> None:
        """These leases are gone: their handlers are told, and what they write is refused."""
        for held in self.room.those(runs):
            if held.tell(LOST):
                log.warning("the lease of job %s (run %d) is lost", held.claimed.job_id, held.fence.run_count)

    # ------------------------------------------------------------------------------------------------------------- watch

    def _tick(self) -> None:
        """Runs on the loop: says that no handler blocks it."""
        self._loop_tick = time.monotonic()
        if self._loop is not None and not self._loop.is_closed() and not self._over.is_set():
            self._loop.call_later(_TICK_S, self._tick)

    def _loop_age(self) -> float:
        return time.monotonic() - self._loop_tick

    def _watch(self) -> None:
        """Limits, local deadlines, drain. Looks, not timers: a suspend or a blocked loop delays no judgement."""
        while not self._over.wait(_TICK_S):
            try:
                self._look()
            except Exception:  # a watch that ends would keep lost leases running
                log.exception("the watch stumbled and goes on")

    def _look(self) -> None:
        now, now_ns = time.monotonic(), self._known_until()
        draining = self._drain_at is not None
        if now_ns - self._good_ns > self._silence_ns:
            self.clerk.pulse_good = False  # a beat hangs; nobody would keep what we claimed (SPEC W4)
        for held in self.room.everything():
            if not held.ended and held.has_outlived(now_ns) and held.tell(LOST):
                log.warning("job %s: no good beat for too long, its lease must be taken for lost", held.claimed.job_id)
            if held.started_at is None or held.ended:
                continue
            if held.is_overdue(now) and held.tell(TIMEOUT):
                self.board.overdue(held.at)
            if held.why in (TIMEOUT, LOST, CANCEL):
                self._judge_deaf(held, now - held.told_at)
        if draining and self._drain_at is not None and now > self._drain_at:
            self._release_bodies()
        if draining and not self.clerk.in_claim and self.room.is_empty:
            self._end("drained")

    def _known_until(self) -> int:
        """The moment by which local deadlines are judged: until then we know of every good beat.

        When something held the GIL nobody here ran, and the words of a supervisor that went on beating wait in the pipe.
        Without a supervisor the pulse gets a moment to ask first: the database decides.
        """
        now_ns = boot_ns()
        gap, self._looked_ns = now_ns - self._looked_ns, now_ns
        if self.heard_ns:
            return self.heard_ns
        if gap > _STALLED_NS:
            self._hold_ns = now_ns + int(min(1.0, self.settings.heartbeat_ttl / 5) * 1e9)
        return self._good_ns if now_ns < self._hold_ns else now_ns

    def _judge_deaf(self, held: Held, since: float) -> None:
        """A body was told to end so many seconds ago, and goes on."""
        assert held.task is not None
        executor = held.task.policy.executor
        if executor == "async" and since > _SWALLOWED_S and not held.abandoned:
            log.warning("job %s was told to end and goes on; its slot is given to others", held.claimed.job_id)
            self.room.abandon(held)
        recycle = executor == "thread" and held.why == TIMEOUT and since > _THREAD_GRACE_S
        if recycle and self._supervised and not self._stuck:
            self._stuck = True
            log.warning("job %s: its thread cannot be stopped; this process will be replaced", held.claimed.job_id)
            self.quiet()
            self.clerk.hand_back_waiting()
            self.board.stuck(boot_ns() + int(_THREAD_GRACE_S * 1e9))

    def _release_bodies(self) -> None:
        """Past the shutdown timeout: async bodies are cancelled, process bodies killed, threads keep their lease."""
        if not self._released:
            self._released = True
        for held in self.room.everything():
            if held.started_at is not None:
                held.tell(RELEASE)

    def _fail(self, error: FencepostError) -> None:
        self.error = error
        for held in self.room.everything():
            held.tell(LOST)
        self._end("failed")

    def _end(self, reason: str) -> None:
        if self._over.is_set():
            return
        self._over.set()
        self.clerk.ending = True
        self.clerk.wake()
        if self._wakeup is not None:
            self._wakeup.halt()
        self.room.close()
        if threading.current_thread() is not self.clerk:
            self.clerk.join(2.0)
        self.board.enter(Phase.DONE)
        self.app.observers.emit(WorkerStopped(name=self.app.name, reason=reason))
        if self.on_over is not None:
            self.on_over()
