"""The role that does only the leader's duties: `fencepost leader`. Runs until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from fencepost import early
from fencepost.duty.leader import Leader
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog

_LEAVE_S = 5.0


def run(dsn: str, catalog: Catalog, settings: DutySettings | None = None) -> int:
    """Lead, or wait to lead, until a signal; answer the exit code (0, or that of the error that ended it).

    Must be called from the main thread. The first signal resigns; a second one ends at once with code 1.
    """
    stop = threading.Event()
    again = threading.Event()

    def heard(_number: int, _frame: FrameType | None) -> None:
        (again if stop.is_set() else stop).set()

    before = {number: signal.signal(number, heard) for number in early.STOPS}
    if early.caught:  # it came during our imports
        stop.set()
    leader = Leader(dsn, catalog, settings, stop)
    leader.start()
    try:
        while leader.is_alive() and not again.is_set():
            leader.join(0.2 if stop.is_set() else 0.5)
            if stop.is_set():
                leader.join(_LEAVE_S)
                break
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if leader.error is not None:
        return leader.error.exit_code
    return 1 if leader.is_alive() else 0
