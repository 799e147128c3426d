"""The role that does only the leader's duties: `fencepost leader`. Runs until SIGTERM or Ctrl-C."""

from __future__ import annotations

import math
import signal
import threading
import time
from types import FrameType

from fencepost import early
from fencepost.duty.leader import Leader
from fencepost.duty.settings import DutySettings
from fencepost.sql.catalog import Catalog

_LEAVE_S = 5.0
_GLANCE_S = 0.1


def run(dsn: str, catalog: Catalog, settings: DutySettings | None = None) -> int:
    """Lead, or wait to lead, until a signal; answer the exit code (0, or that of the error that ended it).

    Must be called from the main thread. The first signal resigns; a second one ends at once with code 1.
    """
    stop = threading.Event()
    # A list, not the event: setting an event takes its lock, which the code that a handler interrupts may hold.
    heard = list(early.caught[:1])  # it came during our imports

    def note(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    before = {number: signal.signal(number, note) for number in early.STOPS}
    leader = Leader(dsn, catalog, settings, stop)
    leader.start()
    leave_by = math.inf
    try:
        while leader.is_alive() and len(heard) < 2 and time.monotonic() < leave_by:
            leader.join(_GLANCE_S)
            if heard and not stop.is_set():
                stop.set()
                leave_by = time.monotonic() + _LEAVE_S
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if leader.error is not None:
        return leader.error.exit_code
    return 1 if leader.is_alive() else 0
