"""A supervisor of the torture, as the command line starts one, with a leader whose periods fit the short leases.

``python -m fencepost.testing.torture.worker FOLDER``; FENCEPOST_DSN names its door to the database.
"""

from __future__ import annotations

import sys

from fencepost import early

early.install()

from collections.abc import Sequence  # noqa: E402 - signals are heard from the first moment on
from pathlib import Path  # noqa: E402

from fencepost import config, logs  # noqa: E402
from fencepost.domain.redact import Redactor  # noqa: E402
from fencepost.duty.leader import Leader  # noqa: E402
from fencepost.duty.settings import DutySettings  # noqa: E402
from fencepost.errors import FencepostError  # noqa: E402
from fencepost.sql.catalog import Catalog  # noqa: E402
from fencepost.testing.torture.settings import SCHEMA, Settings  # noqa: E402
from fencepost.worker.settings import WorkerSettings  # noqa: E402
from fencepost.worker.supervisor.main import Service, run  # noqa: E402

APP = "fencepost.testing.torture.app:app"


def main(folder: Path) -> int:
    """Run until it is told to stop; the exit code."""
    settings = Settings.read(folder)

    def duties(dsn: str, sql: Catalog) -> Sequence[Service]:
        beat = settings.heartbeat
        periods = DutySettings(
            heartbeat_interval=beat,
            lease=max(1.0, 3 * beat),
            reaper_period=beat / 2,
            rotate_period=0.1,
            rotate_after=50,
        )
        return [Leader(dsn, sql, periods)]

    logs.configure(json=True, level="INFO", redactor=Redactor())
    try:
        return run(
            APP,
            worker_settings(settings),
            dsn=config.from_env().dsn,
            schema=SCHEMA,
            logs={"json": True, "level": "INFO", "secrets": []},
            duties=duties,
        )
    except FencepostError as error:
        sys.stderr.write(f"fencepost: {error}\n")
        return error.exit_code


def worker_settings(settings: Settings) -> WorkerSettings:
    """Queues with their slots, and times divided so that rescues happen."""
    return WorkerSettings.create(
        queues={
            "fast": settings.fast_slots,
            "slow": settings.slow_slots,
            "threads": settings.thread_slots,
            "apart": settings.process_slots,
        },
        heartbeat_interval=settings.heartbeat,
        heartbeat_ttl=settings.ttl,
        poll_interval=0.2,
        shutdown_timeout=settings.shutdown,
        on_outage="stay",
    )


if __name__ == "__main__":
    early.finish(main(Path(sys.argv[1])))
