"""The command tree, loaded command by command, and the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import click

from fencepost.cli import exits
from fencepost.version import __version__

COMMANDS = {
    "bench": ("fencepost.cli.bench:bench", "Measure fencepost on this machine, beside bare SQL."),
    "demo": ("fencepost.cli.demo:demo", "Watch real jobs survive a killed worker and a restarted database."),
    "dev": ("fencepost.cli.dev:dev", "Run this folder's own PostgreSQL for development."),
    "jobs": ("fencepost.cli.jobs:jobs", "List, show, retry and cancel jobs."),
    "leader": ("fencepost.cli.leader:leader", "Run only the leader's duties: rescue, promote, prune, vacuum."),
    "migrate": ("fencepost.cli.migrate:migrate", "Create or update fencepost's schema."),
    "queues": ("fencepost.cli.queues:queues", "List, pause and resume queues."),
    "status": ("fencepost.cli.status:status", "Show what waits, runs and failed, the workers and the leader."),
    "torture": ("fencepost.cli.torture:torture", "Prove on this machine that nothing is lost and no zombie writes."),
    "worker": ("fencepost.cli.worker:worker", "Run jobs: a supervisor and its worker processes."),
}
"""Name -> where it lives, and its line in ``fencepost --help``; a command's module is imported only when it is used."""


@dataclass(slots=True)
class Session:
    """What the whole call shares."""

    traceback: bool = False


class Tree(click.Group):
    """A group whose commands are imported on use, so that ``fencepost --help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Every command, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command; None for a name that does not exist."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(
    cls=Tree,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: fencepost dev   (a database for this folder),  then: fencepost worker shop.jobs:app",
)
@click.version_option(__version__, "--version", prog_name="fencepost")
@click.option(
    "--traceback", is_flag=True, envvar="FENCEPOST_TRACEBACK", help="Show where an error came from (redacted)."
)
@click.pass_obj
def cli(session: Session, *, traceback: bool) -> None:
    """Background jobs on PostgreSQL that survive crashes."""
    session.traceback = traceback


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; answer the exit code (see `fencepost.cli.exits`). Never shows a traceback unless asked."""
    session = Session()
    _open_closed_streams()
    try:
        code = cli.main(
            args=None if argv is None else list(argv), prog_name="fencepost", standalone_mode=False, obj=session
        )
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - also Ctrl-C and SystemExit become an exit code
        return _end(error, session)
    return code if isinstance(code, int) else exits.DONE


def _open_closed_streams() -> None:
    """A stream that the shell closed (``>&-``) is None here: what goes there goes nowhere.

    Their numbers are taken too, or the next file or socket that is opened would get what others still print there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115, PTH123 - for good


def _end(error: BaseException, session: Session) -> int:
    if type(sys.stdout).__name__.endswith(
        "PacifyFlushWrapper"
    ):  # click met a closed pipe and turned it into SystemExit
        return _reader_gone()
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else exits.DONE if error.code is None else exits.FAILED
    if isinstance(error, click.exceptions.Exit):
        return int(error.exit_code)
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return exits.INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return _reader_gone()
    try:
        sys.stdout.flush()
    except OSError:
        return _reader_gone()
    if session.traceback and not isinstance(error, click.ClickException):
        _show_traceback(error)
    return _tell(error)


def _tell(error: BaseException) -> int:
    """One sentence on stderr, and the code."""
    from fencepost.errors import FencepostError

    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its text is the help, not a sentence
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{error.format_message()}\n")
        return int(error.exit_code)
    if isinstance(error, click.ClickException):
        _say(_of_click(error))
        return int(error.exit_code)
    if isinstance(error, FencepostError):
        _say(_redacted(str(error)))
        return error.exit_code
    _say(_redacted(f"unexpected {type(error).__name__}: {error}; --traceback shows where"))
    return exits.FAILED


def _of_click(error: click.ClickException) -> str:
    text = error.format_message().rstrip(".")
    ctx = getattr(error, "ctx", None)
    return f"{text}; see {ctx.command_path} --help" if isinstance(error, click.UsageError) and ctx is not None else text


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"fencepost: {' '.join(sentence.split())}\n")
        sys.stderr.flush()


def _show_traceback(error: BaseException) -> None:
    import traceback

    with contextlib.suppress(OSError):
        sys.stderr.write(_redacted("".join(traceback.format_exception(error))))


def _redacted(text: str) -> str:
    from fencepost.config import secrets_of_env
    from fencepost.domain.redact import Redactor

    return Redactor(secrets=secrets_of_env()).text(text)


def _reader_gone() -> int:
    """The reader closed the pipe: say nothing, and let nothing be flushed into it at the exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.READER_GONE
