"""``fencepost migrate``: the schema, by a person or a deploy step; workers never do it themselves."""

from __future__ import annotations

from contextlib import closing

import click

from fencepost.cli import exits
from fencepost.cli.options import Target, as_json, target
from fencepost.cli.output import print_json
from fencepost.errors import UsageError


@click.command(epilog="Example: fencepost migrate --dsn postgresql://owner@db/shop && fencepost migrate --check")
@click.option("--sql", "only_sql", is_flag=True, help="Print the SQL for review or for your own tool; touch nothing.")
@click.option("--check", is_flag=True, help="Only say whether the schema fits this program: exit code 0, else 3.")
@as_json
@target
def migrate(target: Target, *, only_sql: bool, check: bool, as_json: bool) -> int:
    """Create or update fencepost's schema.

    Safe under load, by two at once, and again after a crash: each step waits for locks only briefly and is recorded.
    Run it before the new workers start; workers of the release before keep running on the new schema. Index builds
    need a direct connection, without a transaction pooler between.
    """
    if only_sql and check:
        raise UsageError("--sql and --check exclude each other: choose one")
    if only_sql:
        return _print_sql(target, as_json)
    if check:
        return _check(target, as_json)
    return _migrate(target, as_json)


def _print_sql(target: Target, as_json: bool) -> int:
    from fencepost.app import App

    app = App(schema=target.schema_name())
    if as_json:
        print_json({"schema": app.catalog.schema, "sql": app.schema_sql()})
    else:
        click.echo(app.schema_sql())
    return exits.DONE


def _check(target: Target, as_json: bool) -> int:
    with closing(target.open()) as app:
        report = app.check_schema()
    if as_json:
        print_json({"schema": app.catalog.schema, "current": report.is_current, "report": report})
    else:
        click.echo(report.sentence)
    return exits.DONE if report.is_current else exits.SCHEMA


def _migrate(target: Target, as_json: bool) -> int:
    with closing(target.open()) as app:
        report = app.migrate(None if as_json else click.echo)
    if as_json:
        print_json(report)
    else:
        click.echo(f"schema {app.catalog.schema} is up to date")
    return exits.DONE
