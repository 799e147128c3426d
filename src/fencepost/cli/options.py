"""Options that several commands share, and how a command finds its database."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.app import App

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON (times in ISO 8601, UTC).")


@dataclass(frozen=True, slots=True)
class Target:
    """Where the database is, as said on the command line."""

    dsn: str | None
    app: str | None
    schema: str | None

    def open(self) -> App:
        """The App to work with. Looks at ``--dsn``, then the app of ``--app``, then FENCEPOST_DSN.

        Raises `UsageError` when nothing names a database.
        """
        from fencepost.app import App
        from fencepost.config import check_dsn, from_env

        config = from_env()
        if self.dsn is not None:
            return App(check_dsn("--dsn", self.dsn), schema=self.schema or config.schema or "fencepost")
        path = self.app or (None if config.dsn else config.app)
        if path is not None:
            found = load_app(path)
            if self.schema is not None and found.catalog.schema != self.schema:
                return App(found.dsn, schema=self.schema)
            return found
        if config.dsn is None:
            raise UsageError(
                "no database is named: give --dsn postgresql://user@host/name or --app module:app, or set "
                "FENCEPOST_DSN; `fencepost dev` starts one for this folder"
            )
        return App(config.dsn, schema=self.schema or config.schema or "fencepost")


def target(command: F) -> F:
    """``--dsn``, ``--app``, ``--schema``; the command gets one argument ``target``."""
    import functools

    @functools.wraps(command)
    def with_target(*args: Any, dsn: str | None, app: str | None, schema: str | None, **more: Any) -> Any:
        return command(*args, target=Target(dsn, app, schema), **more)

    for option in (
        click.option("--schema", metavar="NAME", help='Schema of the tables ("fencepost"; FENCEPOST_SCHEMA).'),
        click.option("--app", metavar="MODULE:APP", help="Take the database of this App."),
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
