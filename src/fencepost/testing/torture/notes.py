"""One file of events for each process that has something to tell: lines of JSON, each written by one append."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class Notes:
    """Appends events with the time of the system-wide monotonic clock. Safe from any thread; survives SIGKILL."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, **event: Any) -> None:
        """Write one event; its time is taken here unless it has one (``t``)."""
        os.write(self._fd, json.dumps({"t": round(time.monotonic(), 6), **event}).encode() + b"\n")

    def close(self) -> None:
        """Nothing is buffered."""
        os.close(self._fd)
