"""A worker as the command starts it, with the leader beside it: ``python serve.py SPEC.json`` in the app's folder."""

from __future__ import annotations

import sys

from fencepost import early

early.install()

import json  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from fencepost import logs  # noqa: E402
from fencepost.duty.leader import Leader  # noqa: E402
from fencepost.duty.settings import DutySettings  # noqa: E402
from fencepost.errors import FencepostError  # noqa: E402
from fencepost.sql.catalog import Catalog  # noqa: E402
from fencepost.worker.settings import WorkerSettings  # noqa: E402
from fencepost.worker.supervisor.main import Service, run  # noqa: E402

spec = json.loads(Path(sys.argv[1]).read_text())
settings = WorkerSettings.create(**spec["settings"])


def duties(dsn: str, sql: Catalog) -> Sequence[Service]:
    """The leader, with periods that fit the beats."""
    beat = settings.heartbeat_interval
    return [Leader(dsn, sql, DutySettings(heartbeat_interval=beat, lease=max(1.0, 2 * beat), reaper_period=beat / 2.5))]


logs.configure(json=True)
try:
    code = run(
        spec["app"],
        settings,
        dsn=spec["dsn"],
        logs={"json": True, "level": "INFO"},
        duties=duties if spec["leader"] else None,
    )
except FencepostError as error:
    sys.stderr.write(f"fencepost: {error}\n")
    code = error.exit_code
early.finish(code)
