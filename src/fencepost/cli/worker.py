"""``fencepost worker``: flags over variables over defaults, then the supervisor takes over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.options import log_options, traceback_option
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.worker.settings import WorkerSettings
    from fencepost.worker.supervisor.main import DutyFactory


@click.command(epilog="Example: fencepost worker shop.jobs:app --queue mail:8 --queue reports:2 --processes 2")
@click.argument("app", required=False, metavar="[MODULE:APP]")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME[:SLOTS]", help="A queue; repeatable (FENCEPOST_QUEUES)."
)
@click.option("--slots", type=int, help="Jobs at once, of each queue without a number of its own (1; FENCEPOST_SLOTS).")
@click.option("--processes", type=int, help="Worker processes, each with these slots (1; FENCEPOST_PROCESSES).")
@click.option("--heartbeat-interval", metavar="SECONDS", help="Between two beats (5; FENCEPOST_HEARTBEAT_INTERVAL).")
@click.option(
    "--heartbeat-ttl", metavar="SECONDS", help="A lease without a beat lasts so long (30; FENCEPOST_HEARTBEAT_TTL)."
)
@click.option(
    "--poll-interval", metavar="SECONDS", help="At most so long between two looks (1; FENCEPOST_POLL_INTERVAL)."
)
@click.option(
    "--shutdown-timeout", metavar="SECONDS", help="What runs may go on so long (10; FENCEPOST_SHUTDOWN_TIMEOUT)."
)
@click.option(
    "--on-outage",
    type=click.Choice(("exit", "stay")),
    help="When the database is away longer than the ttl: end with code 1, or live on (exit; FENCEPOST_ON_OUTAGE).",
)
@click.option("--fair/--no-fair", default=None, help="Share each queue's slots between tenants (off; FENCEPOST_FAIR).")
@click.option("--notify/--no-notify", default=None, help="Listen for new jobs, else only poll (on; FENCEPOST_NOTIFY).")
@click.option(
    "--leader/--no-leader",
    default=True,
    envvar="FENCEPOST_LEADER",
    help="Stand for election as leader (on; FENCEPOST_LEADER).",
)
@log_options
@click.option("--schema", metavar="NAME", help="Schema of the tables (the app's; FENCEPOST_SCHEMA).")
@click.option("--dsn", metavar="DSN", help="Where the database is (as the app says).")
@traceback_option
def worker(
    app: str | None,
    *,
    dsn: str | None,
    schema: str | None,
    leader: bool,
    log_json: bool,
    log_level: str,
    **options: Any,
) -> int:
    """Run jobs of the App at MODULE:APP (FENCEPOST_APP): a supervisor and its worker processes.

    SIGTERM or Ctrl-C: no new claims, what runs may finish within the shutdown timeout, the rest goes back unspent. A
    second signal hands back within 2 seconds. Ends with 0 after a stop, 1 if a body refused to stop or the outage was
    too long, 2 for wrong use, 3 without a fitting schema, 4 on a database that is not PostgreSQL.
    """
    from fencepost import logs
    from fencepost.config import check_dsn, from_env, passwords_of
    from fencepost.domain.redact import Redactor
    from fencepost.worker.supervisor.main import run

    config = from_env()
    path = app or config.app
    if path is None:
        raise UsageError("no app is named: fencepost worker shop.jobs:app, or set FENCEPOST_APP")
    if path.count(":") != 1 or not path.partition(":")[2].isidentifier():
        raise UsageError(f"the app must be MODULE:APP, such as shop.jobs:app, not {path!r}")
    where = check_dsn("--dsn", dsn) if dsn is not None else None
    settings = settings_of(options, config.worker)
    secrets = sorted({*config.secrets, *(passwords_of(where) if where else ())})
    redactor = Redactor(secrets=secrets)
    logs.configure(json=log_json, level=log_level, redactor=redactor)
    return run(
        path,
        settings,
        dsn=where,
        schema=schema or config.schema,
        logs={"json": log_json, "level": log_level, "secrets": secrets},
        duties=_standing_for_leader(settings) if leader else None,
        on_dsn=lambda dsn: redactor.learn(*passwords_of(dsn)),
    )


def _standing_for_leader(settings: WorkerSettings) -> DutyFactory:
    """What the supervisor runs beside its watch; the watch itself knows nothing of it."""
    from fencepost.duty.leader import Leader
    from fencepost.duty.settings import DutySettings

    duty = DutySettings(heartbeat_interval=settings.heartbeat_interval)
    return lambda dsn, catalog: [Leader(dsn, catalog, duty)]


def settings_of(flags: Mapping[str, Any], env: Mapping[str, Any]) -> WorkerSettings:
    """The settings, checked; a flag comes before its variable. Raises `UsageError` that names the field."""
    from fencepost.domain.durations import seconds
    from fencepost.worker.settings import WorkerSettings

    wanted = dict(env)
    for name, value in flags.items():
        if value is None or value == ():
            continue
        if name == "queues":
            wanted[name] = queue_slots(value, flags.get("slots") or env.get("slots") or 1)
        elif name.startswith("heartbeat_") or name in ("poll_interval", "shutdown_timeout"):
            try:
                wanted[name] = seconds(value)
            except (UsageError, ValueError) as error:
                raise UsageError(f"--{name.replace('_', '-')}: {error}") from None
        else:
            wanted[name] = value
    return WorkerSettings.create(**wanted)


def queue_slots(words: tuple[str, ...], slots: int) -> dict[str, int]:
    """``("mail:8", "reports")`` -> names with slots; ``slots`` for those without a number of their own."""
    found: dict[str, int] = {}
    for word in words:
        name, mark, number = word.replace("=", ":").rpartition(":")
        if not mark:
            name, number = word, str(slots)
        if not name:
            raise UsageError(f"--queue {word!r} names no queue; write NAME or NAME:SLOTS")
        if name in found:
            raise UsageError(f"--queue {name}: is named twice")
        if not (number.isdecimal() and int(number) > 0):
            raise UsageError(f"--queue {word}: the slots must be a whole number of 1 or more, not {number!r}")
        found[name] = int(number)
    return found
