"""``fencepost queues``."""

from __future__ import annotations

from contextlib import closing

import click

from fencepost.cli import exits
from fencepost.cli.options import Target, as_json, audited, target, who
from fencepost.cli.output import lasting, print_json, print_table
from fencepost.errors import FencepostError


@click.group(epilog="Example: fencepost queues pause mail --reason 'provider is down'")
def queues() -> None:
    """List, pause and resume queues."""


@queues.command("list", epilog="Example: fencepost queues list --json")
@as_json
@target
def list_(target: Target, *, as_json: bool) -> int:
    """List the queues with what waits, runs and is paused."""
    with closing(target.open()) as app:
        found = app.client.queues()
    if as_json:
        print_json(found)
        return exits.DONE
    rows = [
        (q.name, "paused" if q.paused else "open", q.ready, q.delayed, q.parked, q.running, lasting(q.oldest_due_age_s))
        for q in found
    ]
    heads = ("queue", "", "ready", "later", "parked", "running", "oldest due")
    print_table(heads, rows, empty="no queue has been used yet")
    return exits.DONE


@queues.command(epilog="Example: fencepost queues pause mail --reason 'provider is down'")
@click.argument("name")
@audited
@as_json
@target
def pause(target: Target, name: str, *, reason: str, actor: str | None, as_json: bool) -> int:
    """Let no worker claim from a queue; what runs goes on."""
    return _switch(target, name, paused=True, reason=reason, actor=actor, as_json=as_json)


@queues.command(epilog="Example: fencepost queues resume mail --reason 'provider is back'")
@click.argument("name")
@audited
@as_json
@target
def resume(target: Target, name: str, *, reason: str, actor: str | None, as_json: bool) -> int:
    """End a pause."""
    return _switch(target, name, paused=False, reason=reason, actor=actor, as_json=as_json)


def _switch(target: Target, name: str, *, paused: bool, reason: str, actor: str | None, as_json: bool) -> int:
    by = who(actor)
    with closing(target.open()) as app:
        if not any(queue.name == name for queue in app.client.queues()):
            raise FencepostError(f"there is no queue {name!r}: `fencepost queues list` shows those that have been used")
        act = app.client.pause_queue if paused else app.client.resume_queue
        answer = act(name, actor=by, reason=reason)
    if as_json:
        print_json({"queue": name, "answer": answer, "actor": by, "reason": reason})
    else:
        click.echo(f"queue {name}: {answer}")
    return exits.DONE
