"""edges_app behind a slow network: the answer of a claim that found something takes a second."""

from __future__ import annotations

import time
from typing import Any

from fencepost.store.wire import Wire
from worker.apps.edges_app import app

__all__ = ["app"]
_run = Wire.run


def run(self: Wire, flow: Any, meanwhile: Any = None) -> Any:
    found = _run(self, flow, meanwhile)
    if getattr(found, "jobs", None):
        time.sleep(1.0)
    return found


Wire.run = run  # type: ignore[method-assign]
