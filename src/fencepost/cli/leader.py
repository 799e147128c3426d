"""``fencepost leader``: the role that does only what is done once per cluster (SPEC S3)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from fencepost.cli.options import Target, log_options, target
from fencepost.errors import OutageError, SchemaError

if TYPE_CHECKING:
    from fencepost.app import App


@click.command(epilog="Example: fencepost leader --dsn postgresql://owner@db/shop")
@click.option("--lease", type=float, default=10.0, show_default=True, help="Seconds until another may take over.")
@click.option("--heartbeat-interval", type=float, help="The workers' (5): after an outage they get two of them.")
@log_options
@target
def leader(target: Target, *, lease: float, heartbeat_interval: float | None, log_json: bool, log_level: str) -> int:
    """Run only the leader's duties: rescue, promote, expire, prune, vacuum.

    Every worker can be the leader; this role is for installations that keep it apart, such as with the owner's rights
    (VACUUM). Start two of them for safety: one leads, the other takes over within the lease.
    """
    from fencepost import logs
    from fencepost.config import from_env
    from fencepost.duty.main import run
    from fencepost.duty.settings import DutySettings

    with closing(target.open()) as app:
        logs.configure(json=log_json, level=log_level, redactor=app.redactor)
        interval = heartbeat_interval
        if interval is None:
            interval = from_env().worker.get("heartbeat_interval", 5.0)
        settings = DutySettings(lease=lease, heartbeat_interval=interval)
        _verify(app)
        return run(app.dsn, app.catalog, settings)


def _verify(app: App) -> None:
    """Refuse a schema that does not fit; a database that is away is waited for by the leader itself (SPEC W4)."""
    try:
        report = app.check_schema()
    except OutageError:
        return
    if not report.is_usable:
        raise SchemaError(report.sentence)
