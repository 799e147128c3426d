"""``fencepost torture``."""

from __future__ import annotations

from pathlib import Path

import click

from fencepost.cli.options import own_folder, traceback_option


@click.command(epilog="Example: fencepost torture --seconds 60 --report torture.html")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long faults strike.")
@click.option("--seed", type=int, help="Chooses jobs and faults (a random one, printed).")
@click.option("--faults", metavar="KIND,...", help="Only these kinds (all that are possible here).")
@click.option("--dsn", metavar="DSN", help="A database to use instead of a PostgreSQL of its own; it must be empty.")
@click.option("--shared", is_flag=True, help="The database of --dsn may have other tables.")
@own_folder
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a report, one HTML file.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one line of JSON.")
@traceback_option
def torture(
    *,
    seconds: float,
    seed: int | None,
    faults: str | None,
    dsn: str | None,
    shared: bool,
    folder: Path | None,
    report: Path | None,
    as_json: bool,
) -> int:
    """Prove the promises on this machine: real workers, real faults, three witnesses, an independent checker.

    Starts its own PostgreSQL and workers, lets them work while processes are killed and frozen, connections cut and
    the database restarted, waits until every job has ended, and holds the witnesses' histories together. Ends with 0 if
    every promise held, 1 if one was broken, 2 if the run proves too little (or for wrong use).
    """
    from fencepost.config import check_dsn
    from fencepost.testing.torture.main import TortureOptions, run

    return run(
        TortureOptions(
            seconds=seconds,
            seed=seed,
            faults=tuple(word.strip() for word in (faults or "").split(",") if word.strip()),
            dsn=check_dsn("--dsn", dsn) if dsn is not None else None,
            shared=shared,
            folder=folder,
            report=report,
            json=as_json,
        )
    )
