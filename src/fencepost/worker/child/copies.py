"""Copies of a process of ours, which a body makes by forking: they have its memory, its sockets and its handlers.

A copy is not the job. It must not take its parent's signals, nor its own for its parent's; and when it leaves the body it
ends, or it would go on as a second worker on the same connections.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from typing import NoReturn

log = logging.getLogger("fencepost.worker")

ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What tells a service to end; our processes may get them too, when somebody signals all of it."""


def hear() -> tuple[signal.Signals, ...]:
    """The endings that a process should handle: under nohup a hang-up stays ignored."""
    return tuple(number for number in ENDINGS if signal.getsignal(number) is not signal.SIG_IGN)


def give_usual_signals() -> None:
    """Copies made from now on have the handlers of any program, so that ``Process.terminate()`` ends them.

    An event loop hears of signals by a byte in a socket, which a copy shares: its SIGTERM would drain the worker.
    """
    os.register_at_fork(after_in_child=_usual_signals)


def _usual_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in hear():
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def leave(job_id: str, error: BaseException | None) -> NoReturn:
    """End this copy: with the code of its ``sys.exit()``, else with 1."""
    code = error.code if isinstance(error, SystemExit) else 1
    if not isinstance(error, SystemExit):
        told = "returned from" if error is None else f"raised {type(error).__name__} out of"
        log.warning("a forked copy %s the body of job %s and ends here; end it by os._exit()", told, job_id)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a closed pipe changes nothing
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)
