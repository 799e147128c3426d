"""edges_app in a process with more than a thousand open files."""

from __future__ import annotations

import os
import resource

from worker.apps.edges_app import app

__all__ = ["app"]
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
OPEN = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
