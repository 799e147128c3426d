"""``fencepost status``: one look at everything."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from fencepost.cli import exits
from fencepost.cli.options import Target, as_json, target
from fencepost.cli.output import ago, lasting, print_facts, print_json, print_table

if TYPE_CHECKING:
    from fencepost.store.views import StatusView


@click.command(epilog="Example: fencepost status --json | jq .workers")
@as_json
@target
def status(target: Target, *, as_json: bool) -> int:
    """Show what waits, runs and failed, the workers and the leader."""
    with closing(target.open()) as app:
        found = app.client.status()
        workers = app.client.workers()
    if as_json:
        print_json({"status": found, "workers": workers})
        return exits.DONE
    rows = [(count.queue, count.state, count.label, count.jobs) for count in found.counts]
    print_table(("queue", "state", "label", "jobs"), rows, empty="no jobs yet")
    click.echo()
    print_facts(
        [
            ("oldest due job", lasting(found.oldest_due_age_s) if found.oldest_due_age_s is not None else "none waits"),
            ("running", found.running),
            ("stale leases", found.stale),
            ("workers alive", found.workers),
            ("leader", _leader(found)),
            ("quarantine", found.quarantine or None),
            ("inconsistencies", found.fsck or None),
        ]
    )
    if workers:
        click.echo()
        lines = [
            (w.host, w.pid, ", ".join(w.queues), w.running, ago(w.heartbeat_at), ago(w.started_at)) for w in workers
        ]
        print_table(("host", "pid", "queues", "running", "last beat", "started"), lines, empty="")
    return exits.DONE


def _leader(found: StatusView) -> str:
    leader = found.leader
    if leader is None or not leader.alive:
        return "none: start a worker or `fencepost leader`"
    where = f"{leader.host} pid {leader.pid}" if leader.host else f"token {leader.token}"
    return f"{where}, epoch {leader.epoch}, since {ago(leader.taken_at)}"
