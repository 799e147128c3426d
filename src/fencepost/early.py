"""Signal handlers before any slow import.

As PID 1 of a container a process is not killed by a signal that it has no handler for: a SIGTERM during our imports
would vanish and the container would hang until SIGKILL. So the entry module imports this one first. What arrives
before the supervisor or the leader listens lies in `caught`.

And at the other end: interpreter finalisation puts the default handlers back, so that a late second SIGTERM would end a
clean stop with 143, and it joins threads that may never return. `finish` leaves without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

STOPS = (signal.SIGTERM, signal.SIGINT)

caught: list[int] = []
"""The stop signals that came so far, oldest first."""

_installed = False


def install() -> None:
    """Catch SIGTERM and SIGINT (and a SIGHUP that is not ignored, as under nohup) from now on. Main thread only."""
    global _installed  # noqa: PLW0603 - as process-wide as the handlers themselves
    _installed = True
    for number in STOPS:
        signal.signal(number, _catch)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _catch)


def is_installed() -> bool:
    """Whether `install` was called: this process is a worker or a leader of our own command."""
    return _installed


def _catch(number: int, _frame: FrameType | None) -> None:
    caught.append(number)


def interrupt_on_stops() -> None:
    """For a command that starts programs of its own: SIGTERM, and a SIGHUP that is not ignored, end it as Ctrl-C does.

    What it started then ends with it. Main thread only.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def finish(code: int) -> NoReturn:
    """End the process now: signals ignored, streams flushed, no finalisation."""
    for number in (*STOPS, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a closed pipe or a full disk changes no exit code
            stream.flush()
    os._exit(code)
