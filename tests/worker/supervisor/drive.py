"""A supervisor as the command starts it, with another program for its children: ``python drive.py SPEC.json``."""

from __future__ import annotations

import sys

from fencepost import early

early.install()

import json  # noqa: E402
from pathlib import Path  # noqa: E402

from fencepost import logs  # noqa: E402
from fencepost.errors import FencepostError  # noqa: E402
from fencepost.worker.settings import WorkerSettings  # noqa: E402
from fencepost.worker.supervisor.main import run  # noqa: E402

spec = json.loads(Path(sys.argv[1]).read_text())
logs.configure(json=True)
try:
    code = run(
        spec["plan"],
        WorkerSettings.create(**spec["settings"]),
        dsn=spec.get("dsn"),
        program=spec["program"],
    )
except FencepostError as error:
    sys.stderr.write(f"fencepost: {error}\n")
    code = error.exit_code
early.finish(code)
