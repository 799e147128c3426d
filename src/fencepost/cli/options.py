"""Options that several commands share, and how a command finds its database."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.app import App

F = TypeVar("F", bound=Callable[..., Any])


def _new_folder(_: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """Absolute, and not there or empty; nothing is made yet."""
    if value is None:
        return None
    if value.exists() and not (value.is_dir() and not any(value.iterdir())):
        raise UsageError(f"{option.opts[0]} {value}: is not an empty folder; name a new one")
    return value.resolve()


own_folder = click.option(
    "--folder", type=click.Path(path_type=Path), callback=_new_folder, help="Work in this new folder, and keep it."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON (times in ISO 8601, UTC).")


@dataclass(frozen=True, slots=True)
class Target:
    """Where the database is, as said on the command line."""

    dsn: str | None
    app: str | None
    schema: str | None

    def open(self) -> App:
        """The App to work with: the named one (``--app``, FENCEPOST_APP), on the database that was said.

        The database is looked for in ``--dsn``, the app of ``--app``, FENCEPOST_DSN, the app of FENCEPOST_APP. Wherever
        it is, the tables are in ``--schema``, FENCEPOST_SCHEMA, or the app's schema, as for a worker.

        Raises `UsageError` when nothing names a database.
        """
        from fencepost.app import App
        from fencepost.config import check_dsn, from_env

        config = from_env()
        dsn = check_dsn("--dsn", self.dsn) if self.dsn is not None else None if self.app else config.dsn
        schema = self.schema or config.schema
        path = self.app or config.app
        if path is not None and (dsn is None or schema is None or self.app):
            app = load_app(path)
            return _moved(app, dsn if dsn is not None or app.has_dsn else config.dsn, schema)
        if dsn is None:
            raise UsageError(
                "no database is named: give --dsn postgresql://user@host/name or --app module:app, or set "
                "FENCEPOST_DSN; `fencepost dev` starts one for this folder"
            )
        return App(dsn, schema=schema or "fencepost")

    def schema_name(self) -> str:
        """The schema alone, for what needs no database."""
        from fencepost.config import from_env

        config = from_env()
        path = self.app or config.app
        app = load_app(path) if path is not None and not (self.schema or config.schema) else None
        return self.schema or config.schema or (app.catalog.schema if app else "fencepost")


def _moved(app: App, dsn: str | None, schema: str | None) -> App:
    """The app on another database or schema; what it keeps out of sight stays out of sight."""
    from fencepost.app import App
    from fencepost.config import passwords_of

    if dsn is None and schema in (None, app.catalog.schema):
        return app
    moved = App(app.dsn if dsn is None else dsn, schema=schema or app.catalog.schema, notify=app.notify, name=app.name)
    moved.redactor = app.redactor
    moved.redactor.learn(*passwords_of(moved.dsn))
    return moved


def target(command: F) -> F:
    """``--dsn``, ``--app``, ``--schema``; the command gets one argument ``target``."""
    import functools

    @functools.wraps(command)
    def with_target(*args: Any, dsn: str | None, app: str | None, schema: str | None, **more: Any) -> Any:
        return command(*args, target=Target(dsn, app, schema), **more)

    for option in (
        click.option("--schema", metavar="NAME", help="Schema of the tables (the App's; FENCEPOST_SCHEMA)."),
        click.option("--app", metavar="MODULE:APP", help="Take database and schema of this App (FENCEPOST_APP)."),
        click.option("--dsn", metavar="DSN", help="Where the database is (FENCEPOST_DSN)."),
    ):
        with_target = option(with_target)
    return traceback_option(with_target)  # type: ignore[return-value]


def traceback_option(command: F) -> F:
    """``--traceback``, also after the command's name."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value and ctx.obj is not None:
            ctx.obj.traceback = True

    option = click.option(
        "--traceback", is_flag=True, expose_value=False, callback=note, help="Show where an error came from (redacted)."
    )
    return option(command)


def log_options(command: F) -> F:
    """``--log-json`` and ``--log-level``, for commands that run on."""
    command = click.option(
        "--log-level", default="INFO", envvar="FENCEPOST_LOG_LEVEL", show_default=True, help="(FENCEPOST_LOG_LEVEL)"
    )(command)
    return click.option(
        "--log-json",
        "--json",
        "log_json",
        is_flag=True,
        envvar="FENCEPOST_LOG_JSON",
        help="Log JSON lines (FENCEPOST_LOG_JSON).",
    )(command)


def audited(command: F) -> F:
    """``--reason`` and ``--actor``: who did it and why is recorded (SPEC A3, R5)."""
    for option in (
        click.option("--actor", metavar="NAME", default=None, help="Who asks; recorded (your user@host)."),
        click.option("--reason", metavar="TEXT", default="", help="Why; recorded."),
    ):
        command = option(command)
    return command


def who(actor: str | None) -> str:
    """The name for the audit trail."""
    if actor is not None:
        if not actor.strip():
            raise UsageError("--actor must name somebody")
        return actor.strip()
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def load_app(path: str) -> App:
    """Import ``module:attribute`` as a worker does, with the current folder on the path."""
    from fencepost.worker.child.application import load

    if path.count(":") != 1 or not path.partition(":")[2].isidentifier():
        raise UsageError(f"the app must be MODULE:APP, such as shop.jobs:app, not {path!r}")
    try:
        return load(path)
    except SystemExit as error:  # its code is not ours: a 0 would say that the command has been done
        message = f"the app {path!r} cannot be imported: its module ends the program (SystemExit: {error.code})"
        raise UsageError(message) from error
