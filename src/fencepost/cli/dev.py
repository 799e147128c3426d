"""``fencepost dev``: this folder's own PostgreSQL, for development."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.cli import exits
from fencepost.cli.options import as_json, traceback_option
from fencepost.cli.output import print_facts, print_json
from fencepost.errors import EmbeddedServerError, UsageError

if TYPE_CHECKING:
    from fencepost.embedded.server import EmbeddedServer

_GLANCE_S = 0.1

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".fencepost"),
    show_default=True,
    help="Where the server's data lies.",
)


@click.group(
    invoke_without_command=True,
    epilog='Example: fencepost dev        (another terminal: export FENCEPOST_DSN="$(fencepost dev dsn)")',
)
@click.option("--keep", is_flag=True, help="Start it, let it run on, and return at once; `fencepost dev stop` ends it.")
@click.option("--schema", default="fencepost", show_default=True, help="Schema to create.")
@folder_option
@as_json
@traceback_option
@click.pass_context
def dev(ctx: click.Context, *, keep: bool, schema: str, folder: Path, as_json: bool) -> int | None:
    """Run this folder's own PostgreSQL: started, migrated, its DSN printed; stopped by Ctrl-C.

    Several programs may use it at once; it stops when the last one has ended, however it ended. The data stays.
    """
    if ctx.invoked_subcommand is not None:
        return None
    _check(schema)  # first: a name that cannot be a schema's starts no server
    server = _server(folder)
    stopping = _heard_signals()
    server.start()
    try:
        _migrate(server.dsn(), schema)
        if keep:
            server.start(keep=True)  # only now: what cannot be used must not stay
        _announce(server, as_json, keep)
        if not keep:
            while not stopping:
                time.sleep(_GLANCE_S)
    finally:
        server.release()
    return exits.DONE


@dev.command(epilog="Example: fencepost dev stop")
@folder_option
@as_json
@traceback_option
def stop(*, folder: Path, as_json: bool) -> int:
    """Stop the server, whoever uses it."""
    stopped = _server(folder).stop()
    _say(as_json, {"stopped": stopped}, "stopped" if stopped else "it was not running")
    return exits.DONE


@dev.command(epilog="Example: fencepost dev status --json")
@folder_option
@as_json
@traceback_option
def status(*, folder: Path, as_json: bool) -> int:
    """Say whether it runs: exit code 0, else 1."""
    found = _server(folder).status()
    if as_json:
        print_json(
            {"running": found.running, "pid": found.pid, "folder": str(found.folder), "major": found.major,
             "keep": found.keep, "dsn": found.dsn}
        )  # fmt: skip
    else:
        print_facts(
            [
                ("server", f"running (pid {found.pid})" if found.running else "not running"),
                ("version", found.major),
                ("folder", found.folder),
                ("dsn", found.dsn),
                ("kept", "until `fencepost dev stop`" if found.keep else None),
            ]
        )
    return exits.DONE if found.running else exits.FAILED


@dev.command(epilog="Example: fencepost dev logs --lines 200")
@click.option("--lines", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, from the end.")
@folder_option
@as_json
@traceback_option
def logs(*, lines: int, folder: Path, as_json: bool) -> int:
    """Print the end of the server's log."""
    said = _server(folder).logs(lines)
    _say(as_json, {"lines": said.splitlines()}, said)
    return exits.DONE


@dev.command(epilog='Example: export FENCEPOST_DSN="$(fencepost dev dsn)"')
@folder_option
@as_json
@traceback_option
def dsn(*, folder: Path, as_json: bool) -> int:
    """Print the connection string; starts nothing."""
    found = _server(folder).dsn()
    _say(as_json, {"dsn": found}, found)
    return exits.DONE


@dev.command(
    epilog="Example: fencepost dev psql -- -c 'select * from fencepost.jobs'",
    context_settings={"ignore_unknown_options": True},
)
@folder_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- PSQL OPTION...]")
@traceback_option
def psql(*, folder: Path, words: tuple[str, ...]) -> int:
    """Open psql on it (the server runs at least as long as psql does)."""
    server = _server(folder)
    with server.start():
        program = _psql()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to psql
        try:
            return subprocess.run([program, server.dsn(), *words], check=False).returncode
        finally:
            signal.signal(signal.SIGINT, before)


@dev.command(epilog="Example: fencepost dev reset --yes")
@click.option("--yes", is_flag=True, help="Do not ask.")
@folder_option
@as_json
@traceback_option
def reset(*, yes: bool, folder: Path, as_json: bool) -> int:
    """Throw the server's data away."""
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"reset throws away all data in {folder}: give --yes to do it without being asked")
        if not click.confirm(f"Throw away all data in {folder}?", err=True):
            return exits.FAILED
    _server(folder).reset()
    _say(as_json, {"reset": True}, "the data is gone; the next start makes an empty server")
    return exits.DONE


def _say(as_json: bool, data: dict[str, object], sentence: str) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo(sentence)


def _server(folder: Path) -> EmbeddedServer:
    from fencepost.embedded.server import EmbeddedServer

    return EmbeddedServer(folder)


def _check(schema: str) -> None:
    from fencepost.app import App

    App(schema=schema)


def _migrate(dsn: str, schema: str) -> None:
    from fencepost.app import App

    with closing(App(dsn, schema=schema)) as app:
        app.migrate()


def _announce(server: EmbeddedServer, as_json: bool, keep: bool) -> None:
    if as_json:
        print_json({"dsn": server.dsn(), "folder": str(server.layout.root), "kept": keep})
    else:
        click.echo(f"PostgreSQL runs in {server.layout.root}\n\n  export FENCEPOST_DSN={shlex.quote(server.dsn())}\n")
        click.echo("`fencepost dev stop` ends it." if keep else "Ctrl-C ends it.")
    sys.stdout.flush()


def _heard_signals() -> list[int]:
    """The stop signals from now on. A list: setting an event takes its lock, which the interrupted code may hold."""
    heard: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: heard.append(number))
    return heard


def _psql() -> str:
    from fencepost.embedded import binaries

    beside = binaries.find().bindir / "psql"
    found = str(beside) if beside.exists() else shutil.which("psql")
    if found is None:
        raise EmbeddedServerError(
            "psql is not installed beside the server or on the path; use another client with `fencepost dev dsn`"
        )
    return found
