"""edges_app with an observer that would rather end the program."""

from __future__ import annotations

import sys
from typing import NoReturn

from fencepost.tasks.events import JobEnded
from worker.apps.edges_app import app

__all__ = ["app"]


def ends_the_program(_: JobEnded) -> NoReturn:
    sys.exit(1)


app.observers.on(JobEnded, ends_the_program)
