"""``fencepost demo``."""

from __future__ import annotations

from pathlib import Path

import click

from fencepost.cli.options import own_folder, traceback_option


@click.command(epilog="Example: fencepost demo --rows 500")
@click.option(
    "--csv", type=click.Path(path_type=Path), help="Import this file instead of the airports that come along."
)
@click.option("--key", metavar="COLUMN", help="The column of --csv that identifies a row (the first).")
@click.option("--rows", type=int, help="Import only the first N rows.")
@own_folder
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@traceback_option
def demo(csv: Path | None, key: str | None, rows: int | None, folder: Path | None, as_json: bool) -> int:
    """Watch real jobs survive a killed worker and a restarted database.

    Starts its own PostgreSQL, imports real rows with three jobs each (a webhook, an e-mail, a report), kills a
    worker and restarts the database meanwhile, and proves from the outside logs that nothing was lost. Ends with 0
    only if the proof holds.
    """
    from fencepost.demo.main import DemoOptions, run

    return run(DemoOptions(csv=csv, key=key, rows=rows, folder=folder, json=as_json))
