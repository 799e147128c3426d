"""The watch: the main thread's loop over deaths, signals and limits.

It never touches the network, so that a dead database delays no kill. Signals are counted here only; children take any
number of them as one drain. One kill(2) to the group, systemd's TERM to every process and Kubernetes' TERM to PID 1 so
mean the same.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import selectors
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable

from fencepost import early
from fencepost.worker import words
from fencepost.worker.board import STUCK, EntryState, Phase, boot_ns
from fencepost.worker.supervisor import strays
from fencepost.worker.supervisor.clerk import Event, Fatal, HandBack, Order, Outage, Rescue
from fencepost.worker.supervisor.patience import Respawn, Stops
from fencepost.worker.supervisor.processes import Child, Launch

log = logging.getLogger("fencepost.supervisor")

_HASTE_S = 2.0
"""How long a child may take after it should have ended, or after a second signal (SPEC W3)."""

_STALL_NS = 1_000_000_000
"""A child whose ping is older than this starts nothing; what it has claimed ahead is better elsewhere."""

_GROUP_S = 2.0
"""How long to wait for a killed group to be empty; an unkillable member (state D) leaves the leases to the ttl."""

_SOON_S = 0.005


class Watch:
    """Everything about the processes of one supervisor.

    Args:
        launch: what children are told.
        board_fd: the segment with a place for each.
        on_ready: called once with the first good greeting, before any child can have claimed much; starts the clerk.
        order: gives the clerk something to do; called only after ``on_ready``.

    ``failed`` is the exit code that something asked for, with its sentence in ``reason``.
    """

    def __init__(
        self,
        launch: Launch,
        board_fd: int,
        *,
        on_ready: Callable[[dict[str, object]], None],
        order: Callable[[Order], None],
    ) -> None:
        self._launch, self._settings, self._board_fd = launch, launch.settings, board_fd
        self._on_ready, self._order = on_ready, order
        self.living: tuple[Child, ...] = ()
        """Replaced, never changed: the clerk reads it from its thread."""
        self._dying: list[Child] = []
        self._due: dict[int, float] = dict.fromkeys(range(self._settings.processes), 0.0)
        self._respawn = [Respawn() for _ in range(self._settings.processes)]
        self._stops = Stops()
        self._kill_at: float | None = None
        self._quiet = False
        self.was_ready = False
        """Whether a child has ever greeted; before that nothing was claimed, and a failure is the command's answer."""
        self.code = 0
        self.reason: str | None = None
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._select = selectors.DefaultSelector()
        self._wake_r, self._wake_w = os.pipe()
        for fd in (self._wake_r, self._wake_w):
            os.set_blocking(fd, False)
        self._select.register(self._wake_r, selectors.EVENT_READ, None)
        self._numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)

    # ----------------------------------------------------------------------------------------------------- the loop

    def listen(self) -> bool:
        """Take over the signals; False: we were told to stop before we began. Main thread only."""
        numbers = list(self._numbers)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it stays ignored
            numbers.append(signal.SIGHUP)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)  # the byte in the pipe is the message
        return not early.caught

    def run(self) -> None:
        """Start the children and watch until all have ended and are buried."""
        strays.become_subreaper()
        while self.living or self._dying or self._may_start():
            self._start_due()
            for key, _ in self._select.select(self._nap()):
                self._on_ready_fd(key)
            self._take_events()
            self._look()
            self._bury()

    def tell(self, event: Event) -> None:
        """Something that the clerk saw. From any thread."""
        self._events.put(event)
        with contextlib.suppress(OSError):
            os.write(self._wake_w, b"\0")

    def _nap(self) -> float:
        if self._dying:
            return _SOON_S
        soonest = min(self._due.values(), default=None) if self._may_start() else None
        if soonest is None:
            return self._settings.look
        return min(self._settings.look, max(0.0, soonest - time.monotonic()))

    def _on_ready_fd(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            with contextlib.suppress(BlockingIOError):
                for number in os.read(self._wake_r, 4096):
                    self._on_signal(number)
            return
        kind, child = key.data
        if kind == "hello":
            self._on_hello(child)
        elif child in self.living:
            self._on_death(child)

    def _take_events(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                event = self._events.get_nowait()
                if isinstance(event, Fatal):
                    self._fail(event.error.exit_code, str(event.error))
                elif isinstance(event, Outage):
                    self._on_outage(event)

    # ------------------------------------------------------------------------------------------- signals and endings

    def _on_signal(self, number: int) -> None:
        if number in (*early.STOPS, signal.SIGHUP):
            if self._stops.heard(time.monotonic()):
                again = self._stops.calls > 1
                log.info("%s: %s", signal.Signals(number).name, "handing everything back" if again else "stopping")
                self._stop(now=again)
        elif number == signal.SIGUSR1:
            log.info("SIGUSR1: claiming no more jobs")
            self._quiet = True
            self._tell_all(words.Quiet())
        elif number == signal.SIGUSR2:
            self._show()

    def _stop(self, *, now: bool) -> None:
        """Drain, or hand back at once; what has not ended when its time is over is killed."""
        limit = time.monotonic() + (_HASTE_S if now else self._settings.shutdown_timeout + _HASTE_S)
        self._kill_at = limit if self._kill_at is None else min(self._kill_at, limit)
        self._due.clear()
        for child in self.living:
            if child.phase is Phase.STARTING:
                child.deliberate = True
                child.kill()  # still importing: it has claimed nothing
            else:
                child.tell(words.Drain(now=now))

    def _fail(self, code: int, reason: str) -> None:
        """End the service with this exit code and this one line; the first reason counts."""
        if self.reason is None:
            self.code, self.reason = code, reason
            if self.was_ready:
                log.error("%s", reason)
            self._stop(now=True)

    def _on_outage(self, event: Outage) -> None:
        self._tell_all(words.GiveUp())
        ttl = self._settings.heartbeat_ttl
        told = f"no beat has reached the database for {event.seconds:.0f} s, longer than heartbeat_ttl ({ttl:g} s)"
        if self._settings.on_outage == "exit":
            self._fail(1, f"{told}: all jobs were given up and the worker ends; on_outage=stay lets it live on")
        else:
            log.error("%s: all jobs were given up; claiming again after a good beat", told)

    def _tell_all(self, word: words.Word) -> None:
        for child in self.living:
            child.tell(word)

    def _show(self) -> None:
        """Stacks and leases, ours and theirs, to the log."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to see threads
            name = names.get(ident, "unknown")
            log.warning("thread %s of the supervisor:\n%s", name, "".join(traceback.format_stack(frame)))
        for child in self.living:
            held = ", ".join(f"{e.id}#{e.run_count} {e.state.name.lower()}" for e in child.board.snapshot())
            log.warning("%s, %s, holds: %s", child.describe(), child.phase.name.lower(), held or "nothing")
        self._tell_all(words.Show())

    # ------------------------------------------------------------------------------------------------ births and deaths

    def _may_start(self) -> bool:
        return bool(self._due) and self._kill_at is None

    def _start_due(self) -> None:
        if self._kill_at is not None:
            return
        for number in [number for number, at in self._due.items() if at <= time.monotonic()]:
            del self._due[number]
            child = Child(number, self._launch, self._board_fd)
            self.living = (*self.living, child)
            self._select.register(child.hello_fd, selectors.EVENT_READ, ("hello", child))
            if child.pidfd is not None:
                self._select.register(child.pidfd, selectors.EVENT_READ, ("death", child))

    def _on_hello(self, child: Child) -> None:
        answer = child.read_hello()
        if child.greeted or child.hello_over:
            self._select.unregister(child.hello_fd)
        if answer is None or self._refused(child, answer):
            return
        if not self.was_ready and (self._kill_at is None or child.phase is not Phase.STARTING):
            # also when a stop overtook the greeting: it may have claimed by now
            self.was_ready = True
            self._on_ready(answer)
        if self._quiet:
            child.tell(words.Quiet())

    def _on_death(self, child: Child) -> None:
        """Its bodies in job processes end before anybody else starts theirs."""
        child.died_at = time.monotonic()
        if child.pidfd is not None:
            self._select.unregister(child.pidfd)
        with contextlib.suppress(KeyError):
            self._select.unregister(child.hello_fd)
            answer = child.read_hello()
            if answer is not None:
                self._refused(child, answer)
        child.process.wait()
        child.kill()
        self.living = tuple(other for other in self.living if other is not child)
        self._dying.append(child)

    def _refused(self, child: Child, answer: dict[str, object]) -> bool:
        """Whether it says that it can never work (a wrong app, no schema ...): then the whole command ends."""
        if answer.get("ok"):
            return False
        child.deliberate = True
        code = answer.get("exit_code")
        reason = answer.get("message") or "a worker process refused to start"
        self._fail(code if isinstance(code, int) and code else 1, str(reason))
        return True

    def _bury(self) -> None:
        """Order the rescue when the group is empty."""
        if not self._dying:
            return
        ours = {child.pid for child in (*self.living, *self._dying)}
        left = strays.collect(ours, {child.mark for child in self._dying})
        for child in list(self._dying):
            empty = child.is_group_empty() and not left
            if not empty and time.monotonic() - child.died_at < _GROUP_S:
                continue
            self._dying.remove(child)
            if child.token and not self.was_ready:
                log.error("%s died before it could be known where its database is", child.describe())
            elif child.token and empty:
                self._order(_rescue_of(child))
            elif not empty:
                log.error("%s left processes that cannot be killed: its leases are left to the ttl", child.describe())
            self._succeed(child)
            child.close()

    def _succeed(self, child: Child) -> None:
        """Log the death and see to a successor."""
        code = child.process.returncode
        ended = _how(code)
        if self._kill_at is not None:
            log.info("%s ended (%s)", child.describe(), ended)
            if code > 0 and not child.deliberate:
                self.code = self.code or code
                self.reason = self.reason or f"{child.describe()} ended with exit code {code}"
            return
        if child.deliberate or (code == 0 and child.phase is not Phase.STARTING):
            log.info("%s ended (%s), starting another", child.describe(), ended)
            self._due[child.number] = 0.0
            return
        in_body = any(entry.state is not EntryState.CLAIMED for entry in child.board.snapshot())
        delay = self._respawn[child.number].died(time.monotonic(), in_body=in_body)
        if delay is None:
            self._fail(1, f"{child.describe()} died ({ended}), as others did before it: worker processes keep dying")
            return
        log.warning("%s died (%s), starting another in %.2f s", child.describe(), ended, delay)
        self._due[child.number] = time.monotonic() + delay

    # ---------------------------------------------------------------------------------------------------- living ones

    def _look(self) -> None:
        """Limits, signs of life and stalls: the child's own timers may not fire, ours do."""
        now = boot_ns()
        patience = int(self._settings.patience * 1e9)
        if not self._dying:
            strays.collect({child.pid for child in self.living})
        for child in self.living:
            if child.pidfd is None and child.has_ended():
                self._on_death(child)
                continue
            self._judge_life(child, patience)
            self._judge_limits(child, now)
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            for child in self.living:
                if not child.refused_to_stop:
                    child.refused_to_stop = child.deliberate = True
                    self.code = self.code or 1
                    self.reason = self.reason or f"{child.describe()} did not stop in time and was killed"
                    log.error("%s did not stop in time: killed", child.describe())
                child.kill()

    def _judge_life(self, child: Child, patience_ns: int) -> None:
        lives = child.look(patience_ns)
        if not lives and not child.silent:
            log.warning("%s shows no life: its leases are no longer kept", child.describe())
        elif lives and child.silent:
            log.warning("%s shows life again", child.describe())
        child.silent = not lives
        if self.was_ready and child.phase is Phase.WORKING and child.ping_age_ns() > _STALL_NS:
            self._take_back(child)

    def _take_back(self, child: Child) -> None:
        if _has_claimed(child) and not child.hand_back_asked:
            child.hand_back_asked = True
            self._order(HandBack(child))

    def _judge_limits(self, child: Child, now: int) -> None:
        late = {
            entry.id
            for entry in child.board.snapshot()
            if entry.limit_ns and now > entry.limit_ns and entry.state is not EntryState.CLAIMED
        }
        stuck = child.board.words[STUCK]
        if late - child.overdue:
            log.error("%s: killed, job %s is past its maximum duration", child.describe(), _list(late))
        elif stuck and now > stuck and not child.deliberate:
            log.warning("%s: killed, something in it cannot be stopped otherwise", child.describe())
        if late or (stuck and now > stuck):
            child.overdue |= late
            child.deliberate = True
            child.kill()


def _rescue_of(child: Child) -> Rescue:
    """Sort what it ran into the four classes; whatever the database knows beyond that had not started.

    A child that ended by itself while it drained (a thread would not stop) interrupted its jobs; it crashed with none.
    """
    started, overdue = [], []
    for entry in child.board.snapshot():
        if entry.state is EntryState.OVERDUE or entry.id in child.overdue:
            overdue.append(entry.id)
        elif entry.state is EntryState.STARTED:
            started.append(entry.id)
    ended_itself = child.process.returncode >= 0 and child.phase in (Phase.DRAINING, Phase.DONE)
    interrupted = child.deliberate or ended_itself
    return Rescue(
        token=child.token,
        started=() if interrupted else tuple(started),
        overdue=tuple(overdue),
        interrupted=tuple(started) if interrupted else (),
        seen_at=child.died_at,
    )


def _has_claimed(child: Child) -> bool:
    return any(
        entry.state is EntryState.CLAIMED and (entry.id, entry.run_count) not in child.handed_back
        for entry in child.board.snapshot()
    )


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
