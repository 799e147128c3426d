"""Process handlers: each thread here owns one job process, which it may kill. For CPU-bound and crash-prone tasks."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from fencepost.domain.failure import ErrorClass, Failure
from fencepost.domain.outcome import Lost, Outcome, Raised, Released, Snoozed, Stopped
from fencepost.errors import FencepostError, LeaseLostError
from fencepost.worker.child import copies
from fencepost.worker.child.attempt import Attempts, Ended
from fencepost.worker.child.frames import Channel, Gone
from fencepost.worker.child.held import CANCEL, LOST, RELEASE, TIMEOUT, Held
from fencepost.worker.child.jobprocess import claimed_to_json
from fencepost.worker.child.outcomes import from_json

log = logging.getLogger("fencepost.worker")

_LOOK_S = 0.05
_GRACE_S = 1.0
_IMPORT_S = 60.0
_NO_PROCESS_S = 5.0


class ProcessBodies:
    """So many job processes for one queue, started when they are first needed."""

    def __init__(
        self,
        name: str,
        size: int,
        app_path: str | None,
        attempts: Attempts,
        finished: Callable[[Held, Ended], None],
        begin: Callable[[Held], bool],
        refuse: Callable[[Held, Outcome], None],
        draining: Callable[[], bool],
    ) -> None:
        self._name, self._size, self._app_path = name, size, app_path
        self._attempts, self._finished, self._begin = attempts, finished, begin
        self._refuse, self.draining = refuse, draining
        self._inbox: queue.SimpleQueue[Held | None] = queue.SimpleQueue()
        self._owners: list[_Owner] = []
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, held: Held) -> None:
        """Run it as soon as a process is free."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif len(self._owners) < self._size:
                owner = _Owner(f"fencepost-{self._name}-p{len(self._owners)}", self._app_path, self._inbox, self)
                self._owners.append(owner)
                owner.start()
        self._inbox.put(held)

    def close(self) -> None:
        """End the processes; what still runs in them is killed."""
        for _ in self._owners:
            self._inbox.put(None)
        for owner in self._owners:
            owner.kill()

    def run(self, owner: _Owner, held: Held) -> None:
        """One job on one process, in its owner's thread. Its clock starts when the process is there."""
        missing = owner.prepare(held)
        ended = None
        if (missing is None or self.is_unwanted(held)) and self._begin(held):
            missing, ended = None, owner.carry(held)
            held.end()
        with self._lock:
            self._idle += 1  # before the end is told: that may bring the next one
        if ended is not None:
            self._finished(held, ended)
        elif missing is not None and not held.ended:
            self._refuse(held, _no_process(held, missing))

    def is_unwanted(self, held: Held) -> bool:
        """Whether the run shall not begin, so that nobody waits for its process."""
        return held.why is not None or self.draining()


class _Owner(threading.Thread):
    """A thread and its job process."""

    def __init__(
        self, name: str, app_path: str | None, inbox: queue.SimpleQueue[Held | None], room: ProcessBodies
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._app_path, self._inbox, self._room = app_path, inbox, room
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    def run(self) -> None:
        """Until told to end."""
        while (held := self._inbox.get()) is not None:
            self._room.run(self, held)

    def prepare(self, held: Held) -> Exception | None:
        """Have a process that has imported the app; or what was in the way, also that the run shall not begin."""
        try:
            self._ready(lambda: self._room.is_unwanted(held))
        except (Gone, OSError, FencepostError) as error:
            return error
        return None

    def failed(self, held: Held, error: Exception) -> Ended:
        """It has no process, or had one."""
        return Ended(_dead(held, self.kill(), error))

    def carry(self, held: Held) -> Ended:
        """Run one body; whatever happens to the process is this job's outcome only."""
        try:
            channel = self._ready(lambda: held.why is not None)
            channel.send(
                {
                    "what": "run",
                    "job": claimed_to_json(held.claimed),
                    "token": held.fence.token,
                    "limit_s": None if held.limit is None else held.limit - time.monotonic(),
                    "limit_code": held.limit_code,
                    "stopping": held.stop_requested(),
                    "silence": asdict(held.silence()),
                }
            )
            return self._follow(held, channel)
        except (Gone, OSError, FencepostError) as error:
            return self.failed(held, error)

    def kill(self) -> int | None:
        """SIGKILL to it and all in its group, so that nothing of this run is left beside the next; its exit code."""
        process, self._process = self._process, None
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # not collected yet: the number is still its own
        process.kill()
        return process.wait()

    def _follow(self, held: Held, channel: Channel) -> Ended:
        stopping = told = False
        kill_at = float("inf")
        while True:
            message = channel.receive(_LOOK_S)
            if message is None and self._is_dead():
                message = channel.receive(0)  # its last word
                if message is None:
                    raise Gone  # a copy that it forked may hold the socket open
            if held.stop_requested() and not stopping:
                stopping = True
                channel.send({"what": "stop"})
            if held.why is not None and not told:
                told = True
                channel.send({"what": "end", "why": held.why})
                kill_at = time.monotonic() + (0.0 if held.why == TIMEOUT else _GRACE_S)
            what = None if message is None else message["what"]
            if message is not None and what == "ended":
                return Ended(from_json(message["outcome"]), message["stats"])
            if time.monotonic() > kill_at:  # also a body that has something to say all the time
                self.kill()
                return Ended(self._stopped(held))
            if message is not None and what == "progress":
                held.set_progress(message["text"])
            elif message is not None and what == "save":
                channel.send({"what": "saved", "answer": _save(held, message["text"])})

    def _stopped(self, held: Held) -> Any:
        match held.why:
            case "release":
                return Released("the worker was stopped")
            case "cancel":
                return Stopped()
            case "lost":
                return Lost()
        return self._room._attempts._timed_out(held)  # noqa: SLF001 - the same sentence as for other executors

    def _is_dead(self) -> bool:
        """Without collecting it: until then its group's number is nobody else's."""
        process = self._process
        if process is None:
            return True
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _ready(self, given_up: Callable[[], bool]) -> Channel:
        if not self._is_dead() and self._channel is not None:
            return self._channel
        self.kill()
        if self._app_path is None:
            raise FencepostError("process tasks need an app that can be imported: use the command fencepost worker")
        ours, theirs = socket.socketpair()
        with _held_back():
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "fencepost.worker.child.jobprocess"),
                    *(str(theirs.fileno()), self._app_path, str(os.getpid())),
                ],
                pass_fds=(theirs.fileno(),),
                process_group=0,
                stdin=subprocess.DEVNULL,
            )
        theirs.close()
        channel = self._channel = Channel(ours)
        ends = time.monotonic() + _IMPORT_S
        while (said := channel.receive(_LOOK_S)) is None:
            if given_up() or time.monotonic() > ends or self._is_dead():
                raise Gone
        if said["what"] != "ready":
            self.kill()
            raise Gone(said["text"])
        return channel


def _no_process(held: Held, error: Exception) -> Outcome:
    """The body has not begun, so no attempt is spent: later again, a bounded number of times (SPEC C6)."""
    if isinstance(error, FencepostError):
        return Raised(Failure(code="CRASHED", kind=ErrorClass.PERMANENT, text=str(error)))
    text = f"no process could be started for it: {str(error) or type(error).__name__}"
    log.error("job %s waits: %s", held.claimed.job_id, text)
    return Snoozed(_NO_PROCESS_S, "NO_PROCESS", text)


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """What is started here gets no ending before it handles them: a stop of the whole service is no crash of a job."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, copies.ENDINGS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _dead(held: Held, code: int | None, error: Exception) -> Any:
    if held.why == RELEASE:
        return Released("the worker was stopped")
    if held.why == CANCEL:
        return Stopped()
    if held.why == LOST:
        return Lost()
    if isinstance(error, FencepostError):
        return Raised(Failure(code="CRASHED", kind=ErrorClass.PERMANENT, text=str(error)))
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    log.warning("the process of job %s ended: %s", held.claimed.job_id, how)
    return Lost(f"its process ended: {how}")


def _save(held: Held, text: str) -> str:
    try:
        held.save_checkpoint(text)
    except LeaseLostError:
        return "lost"
    except Exception as error:  # noqa: BLE001 - told to the body, which may try again
        return str(error) or type(error).__name__
    return "ok"
