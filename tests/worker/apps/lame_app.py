"""edges_app, which a job process cannot import."""

from __future__ import annotations

import sys

from worker.apps.edges_app import app

__all__ = ["app"]
if "jobprocess" in sys.argv[0] or any("jobprocess" in word for word in sys.orig_argv):
    raise RuntimeError("no licence for a second process")
