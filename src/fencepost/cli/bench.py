"""``fencepost bench``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fencepost.cli.options import traceback_option

if TYPE_CHECKING:
    from fencepost.bench.ground import Ground

F = TypeVar("F", bound=Callable[..., Any])
Options = TypeVar("Options")


@click.group(epilog="Example: fencepost bench drain --json")
def bench() -> None:
    """Measure fencepost on this machine, beside bare SQL, in one run.

    Starts a PostgreSQL of its own (durable: fsync on) or uses the database of --dsn, in schemas of its own. What is
    compared is measured in turn, round after round; figures are medians, with the least and the most beside them.
    """


def common(command: F) -> F:
    """Options of every benchmark."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON."),
        click.option("--dsn", metavar="DSN", help="A database to use instead of a PostgreSQL of its own."),
    ):
        command = option(command)
    return traceback_option(command)


def in_rounds(command: F) -> F:
    """Options of those that measure round after round."""
    return click.option(
        "--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="How often to measure."
    )(common(command))


_slots = click.option(
    "--slots", type=click.IntRange(1, 4096), default=32, show_default=True, help="Jobs at once in a process."
)
_processes = click.option(
    "--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="Worker processes."
)
_JOBS = click.IntRange(100, 100_000_000)


@bench.command(epilog="Example: fencepost bench drain --handler thread --processes 2")
@click.option("--jobs", type=_JOBS, default=20_000, show_default=True, help="Jobs in the queue.")
@click.option(
    "--handler",
    type=click.Choice(("async", "thread", "process")),
    default="async",
    show_default=True,
    help="Of what kind.",
)
@click.option("--defaults", is_flag=True, help="Measure a worker with its default settings, too.")
@_slots
@_processes
@in_rounds
def drain(*, dsn: str | None, as_json: bool, **options: Any) -> int:
    """How fast workers empty a queue of jobs that do nothing, beside UPDATEs of bare SQL."""
    from fencepost.bench import drain as it

    return _measured(it.run, it.DrainOptions(**options), dsn=dsn, as_json=as_json)


@bench.command(epilog="Example: fencepost bench enqueue --connections 4")
@click.option("--single", type=_JOBS, default=2_000, show_default=True, help="Jobs that are enqueued one a call.")
@click.option("--bulk", type=_JOBS, default=20_000, show_default=True, help="Jobs of one big call.")
@click.option("--connections", type=click.IntRange(2, 64), default=8, show_default=True, help="Callers at once.")
@in_rounds
def enqueue(*, dsn: str | None, as_json: bool, **options: Any) -> int:
    """How fast callers enqueue, one by one and many at once, beside bare commits and COPY."""
    from fencepost.bench import enqueue as it

    return _measured(it.run, it.EnqueueOptions(**options), dsn=dsn, as_json=as_json)


@bench.command(epilog="Example: fencepost bench latency --jobs 500")
@click.option("--jobs", type=_JOBS, default=200, show_default=True, help="Jobs in a round.")
@click.option(
    "--per-s", type=click.FloatRange(0.1, 1000), default=20.0, show_default=True, help="Jobs a second, with jitter."
)
@click.option("--slots", type=click.IntRange(1, 4096), default=8, show_default=True, help="Jobs at once in a process.")
@in_rounds
def latency(*, dsn: str | None, as_json: bool, **options: Any) -> int:
    """How long it is from the enqueue call to the handler's first line, with idle workers."""
    from fencepost.bench import latency as it

    return _measured(it.run, it.LatencyOptions(**options), dsn=dsn, as_json=as_json)


@bench.command(epilog="Example: fencepost bench backlog --pending 10000000 --finished 5000000")
@click.option("--pending", type=_JOBS, default=1_000_000, show_default=True, help="Jobs that wait.")
@click.option("--finished", type=click.IntRange(0), default=0, show_default=True, help="Jobs in the history.")
@click.option("--jobs", type=_JOBS, default=20_000, show_default=True, help="So many of them are timed in a round.")
@_slots
@in_rounds
def backlog(*, dsn: str | None, as_json: bool, **options: Any) -> int:
    """Whether a drain slows down with much waiting behind it and much finished beside it."""
    from fencepost.bench import backlog as it

    return _measured(it.run, it.BacklogOptions(**options), dsn=dsn, as_json=as_json)


@bench.command(epilog="Example: fencepost bench flow --seconds 60 --edge 10 --pin snapshot")
@click.option("--seconds", type=click.FloatRange(4), default=300.0, show_default=True, help="How long.")
@click.option(
    "--edge",
    type=click.FloatRange(2),
    default=60.0,
    show_default=True,
    help="Compare the first and last so many, at most half.",
)
@click.option(
    "--pin",
    type=click.Choice(("none", "snapshot", "dump")),
    default="none",
    show_default=True,
    help="Hold a snapshot all the while; dump: one that has read fencepost's tables.",
)
@_slots
@_processes
@common
def flow(*, dsn: str | None, as_json: bool, **options: Any) -> int:
    """Whether the last minute of jobs that come and go costs what the first did."""
    from fencepost.bench import flow as it

    return _measured(it.run, it.FlowOptions(**options), dsn=dsn, as_json=as_json)


def _measured(
    run: Callable[[Ground, Options], dict[str, Any]], options: Options, *, dsn: str | None, as_json: bool
) -> int:
    from fencepost.bench.ground import ground
    from fencepost.bench.paper import show
    from fencepost.config import check_dsn

    with ground(check_dsn("--dsn", dsn) if dsn is not None else None) as place:
        figures = run(place, options)
    show(figures, as_json=as_json)
    return 0
