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
from typing import Any

from fencepost.domain.failure import ErrorClass, Failure
from fencepost.domain.outcome import Lost, Raised, Released, Stopped
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
    ) -> None:
        self._name, self._size, self._app_path = name, size, app_path
        self._attempts, self._finished, self._begin = attempts, finished, begin
        self._inbox: queue.SimpleQueue[Held | None] = queue.SimpleQueue()
        self._owners: list[_Owner] = []
        self._lock = threading.Lock()

    def submit(self, held: Held) -> None:
        """Run it as soon as a process is free."""
        with self._lock:
            if len(self._owners) < self._size and not any(owner.idle for owner in self._owners):
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
        missing = owner.prepare()
        if not self._begin(held):
            return
        ended = owner.carry(held) if missing is None else owner.failed(held, missing)
        held.end()
        self._finished(held, ended)


class _Owner(threading.Thread):
    """A thread and its job process."""

    def __init__(
        self, name: str, app_path: str | None, inbox: queue.SimpleQueue[Held | None], room: ProcessBodies
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._app_path, self._inbox, self._room = app_path, inbox, room
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self.idle = False

    def run(self) -> None:
        """Until told to end."""
        while True:
            self.idle = True
            held = self._inbox.get()
            self.idle = False
            if held is None:
                return
            self._room.run(self, held)

    def prepare(self) -> Exception | None:
        """Have a process that has imported the app; or what was in the way."""
        try:
            self._ready()
        except (Gone, OSError, FencepostError) as error:
            return error
        return None

    def failed(self, held: Held, error: Exception) -> Ended:
        """It has no process, or had one."""
        return Ended(_dead(held, self.kill(), error))

    def carry(self, held: Held) -> Ended:
        """Run one body; whatever happens to the process is this job's outcome only."""
        try:
            channel = self._ready()
            channel.send(
                {
                    "what": "run",
                    "job": claimed_to_json(held.claimed),
                    "token": held.fence.token,
                    "limit_s": None if held.limit is None else held.limit - time.monotonic(),
                    "limit_code": held.limit_code,
                    "stopping": held.stop_requested(),
                }
            )
            return self._follow(held, channel)
        except (Gone, OSError, FencepostError) as error:
            return self.failed(held, error)

    def kill(self) -> int | None:
        """SIGKILL for it and the programs that it started, in its group; collect it; its exit code."""
        process, self._process = self._process, None
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        return process.wait()

    def _follow(self, held: Held, channel: Channel) -> Ended:
        stopping = told = False
        kill_at = float("inf")
        while True:
            message = channel.receive(_LOOK_S)
            if message is None and (self._process is None or self._process.poll() is not None):
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

    def _ready(self) -> Channel:
        if self._process is not None and self._process.poll() is None and self._channel is not None:
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
        if channel.receive(_IMPORT_S) is None:
            raise Gone
        return channel


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
