"""A job process: runs the bodies of process tasks, one after another, for the worker process that started it.

``python -m fencepost.worker.child.jobprocess FD APP``. It dies with its starter (PR_SET_PDEATHSIG on Linux). Its handler
runs in the main thread; a second thread hears what the worker says meanwhile. While a body runs it also looks whether the
worker still lives: one that stands still (SIGSTOP, a debugger) is beaten for no longer, and can say so to nobody.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from fencepost.domain.job import ClaimedJob
from fencepost.domain.storable import said, type_name
from fencepost.errors import LeaseLostError, OutageError
from fencepost.worker.board import boot_ns
from fencepost.worker.child import copies
from fencepost.worker.child.application import load
from fencepost.worker.child.attempt import Attempts
from fencepost.worker.child.frames import Channel, Gone
from fencepost.worker.child.held import LOST, Held
from fencepost.worker.child.outcomes import to_json
from fencepost.worker.life import Silence, Stillness

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """End when the starter does, however it dies. Linux; elsewhere the closed socket does it."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def claimed_to_json(claimed: ClaimedJob) -> dict[str, Any]:
    """For the frame."""
    plain = asdict(claimed)
    return plain | {"finish_by": claimed.finish_by and claimed.finish_by.isoformat()}


def claimed_from_json(plain: dict[str, Any]) -> ClaimedJob:
    """From the frame."""
    finish_by = plain["finish_by"] and datetime.fromisoformat(plain["finish_by"])
    return ClaimedJob(**{**plain, "finish_by": finish_by, "tags": tuple(plain["tags"])})


def end_all_of_it() -> None:
    """SIGKILL to this process and what its bodies have started: nothing is left beside the next run."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class _Server:
    """The process's side of the channel."""

    def __init__(self, channel: Channel, app_path: str, parent: int) -> None:
        self._channel = channel
        self._worker = Stillness(parent)
        app = load(app_path)
        self._app = app
        redact = app.redactor.text
        app.classifier.redact = redact
        self._attempts = Attempts(app.middleware, app.classifier, redact)
        self._held: Held | None = None
        self._sending = threading.Lock()
        self._saved: threading.Event = threading.Event()
        self._save_answer = ""
        self._next: dict[str, Any] | None = None
        self._wake = threading.Event()
        self._silence: Silence | None = None
        """While a run is ours: which silence of the worker ends it."""

    def serve(self) -> None:
        """Until the worker goes away."""
        self._send({"what": "ready"})
        threading.Thread(target=self._listen, name="fencepost-words", daemon=True).start()
        while True:
            self._wake.wait()
            self._wake.clear()
            message, self._next = self._next, None
            if message is not None:
                self._run(message)

    def _listen(self) -> None:
        try:
            while True:
                silence = self._silence  # the other thread takes it away
                message = self._channel.receive(None if silence is None else silence.look_s)
                held = self._held
                if message is None:
                    self._look(held)
                    continue
                match message["what"]:
                    case "run":
                        self._worker.begin()
                        self._silence = Silence(**message["silence"])
                        self._next = message
                        self._wake.set()
                    case "stop" if held is not None:
                        held.stopping = True
                    case "end" if held is not None:
                        held.tell(message["why"])
                    case "saved":
                        self._save_answer = message["answer"]
                        self._saved.set()
        except Gone:
            os._exit(0)

    def _look(self, held: Held | None) -> None:
        """The worker is still for so long that its lease must be taken for lost: the body is told, then ended."""
        silence, still = self._silence, self._worker.look()
        if silence is None or held is None or not silence.nears(still, boot_ns()):
            return
        held.tell(LOST)
        if time.monotonic() > held.told_at + silence.grace_s:
            end_all_of_it()

    def _run(self, message: dict[str, Any]) -> None:
        claimed = claimed_from_json(message["job"])
        held = _Relayed(claimed, message["token"], 0, 0, self._app.registry.get(claimed.task))
        held.send = self._send
        held.save = self._save
        held.begin(message["limit_s"], message["limit_code"])
        if message["stopping"]:
            held.stopping = True
        self._held = held
        ended = contextvars.Context().run(self._attempts.run_sync, held)
        self._held = self._silence = None
        self._send({"what": "ended", "outcome": to_json(ended.outcome), "stats": ended.stats})

    def _save(self, _fence: object, text: str) -> None:
        self._saved.clear()
        self._send({"what": "save", "text": text})
        if not self._saved.wait(60):
            raise OutageError("the checkpoint was not confirmed within 60 s; whether it was written is unknown")
        if self._save_answer == "lost":
            raise LeaseLostError("another run owns this job now; the checkpoint was not written")
        if self._save_answer != "ok":
            raise OutageError(self._save_answer)

    def _send(self, message: dict[str, Any]) -> None:
        with self._sending:
            self._channel.send(message)


class _Relayed(Held):
    """A run whose progress goes to the worker process."""

    __slots__ = ("send",)

    send: Callable[[dict[str, Any]], None]

    def set_progress(self, json_text: str) -> None:
        with contextlib.suppress(Gone):
            self.send({"what": "progress", "text": json_text})


def main() -> None:
    """The entry."""
    parent = int(sys.argv[3])
    die_with(parent)
    for number in copies.hear():
        # Its worker decides about its end. A function, not SIG_IGN, which programs that a body starts would inherit.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, copies.ENDINGS)  # until here its starter has held them back
    copies.give_usual_signals()
    os.set_inheritable(int(sys.argv[1]), False)
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    try:
        try:
            server = _Server(channel, sys.argv[2], parent)
        except BaseException as error:  # noqa: BLE001 - an import may raise anything; the worker is told
            channel.send({"what": "unready", "text": f"{type_name(error)}: {said(error)}"[:2000]})
            os._exit(1)
        server.serve()
    except Gone:
        os._exit(0)


if __name__ == "__main__":
    main()
