"""``fencepost jobs``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fencepost.cli import exits, timeline
from fencepost.cli.options import Target, as_json, audited, target, who
from fencepost.cli.output import ago, print_json, print_table, printable
from fencepost.errors import FencepostError, UsageError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.domain.redact import Redactor
    from fencepost.store.views import JobView

STATES = ("queued", "running", "succeeded", "failed", "cancelled", "skipped", "in_doubt")
ENDED = ("succeeded", "failed", "cancelled", "skipped")
LABELS = (*STATES, "lost", "recovered", "retrying", "scheduled", "parked", "paused")
_PAGE = 500

RETRY_ANSWERS = {
    "resubmitted": "queued again",
    "skipped": "not retried: job {holder} holds its unique key; wait for that one or cancel it",
    "active": "not retried: it is queued or running already",
    "in_doubt": "not retried: its effect may have happened; a reconciler or a person must decide that first",
    "unknown": "unknown: there is no such job",
}
CANCEL_ANSWERS = {
    "cancelled": "cancelled",
    "requested": "cancellation requested: its handler is told with the next beat",
    "finished": "not cancelled: it is over already",
    "busy": "not cancelled: its end is just being written; try again",
    "unknown": "unknown: there is no such job",
}
_GOOD = frozenset({"resubmitted", "cancelled", "requested"})


@click.group(epilog="Example: fencepost jobs list --state failed --task mail.send")
def jobs() -> None:
    """List, show, retry and cancel jobs."""


@jobs.command("list", epilog="Example: fencepost jobs list --label retrying --queue mail --json")
@click.option("--queue", help="Only of this queue.")
@click.option("--task", help="Only of this task.")
@click.option("--state", type=click.Choice(STATES), help="Only in this state.")
@click.option("--label", type=click.Choice(LABELS), help="Only with this label.")
@click.option("--tag", help="Only with this tag.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many.")
@click.option("--before", type=int, metavar="ID", help="Only older ones than this id (the next page).")
@as_json
@target
def list_(
    target: Target,
    *,
    queue: str | None,
    task: str | None,
    state: str | None,
    label: str | None,
    tag: str | None,
    limit: int,
    before: int | None,
    as_json: bool,
) -> int:
    """List jobs, newest first."""
    with closing(target.open()) as app:
        wanted = {"queue": queue, "task": task, "state": state, "label": label, "tag": tag}
        found = app.client.list_jobs(**wanted, limit=limit, before=before)
    if as_json:
        print_json(found)
        return exits.DONE
    rows = [
        (
            str(job.id),
            job.job_id,
            job.task,
            job.queue,
            job.label,
            job.attempts,
            job.last_error_code,
            ago(job.created_at),
        )
        for job in found
    ]
    heads = ("id", "job", "task", "queue", "state", "attempts", "error", "created")
    print_table(heads, rows, empty="no job fits")
    if len(found) == limit and sys.stdout.isatty():
        click.echo(f"more: --before {found[-1].id}")
    return exits.DONE


@jobs.command(epilog="Example: fencepost jobs show mail:7")
@click.argument("job_id")
@as_json
@target
def show(target: Target, job_id: str, *, as_json: bool) -> int:
    """Show one job, the timeline of its runs, and who acted on it. Secrets in its payload are masked."""
    with closing(target.open()) as app:
        found = app.client.job(job_id)
    if found is None:
        raise FencepostError(f"there is no job {job_id!r}: it never existed, or retention has removed it")
    found = _masked(found, app.redactor)
    if as_json:
        print_json(found)
    else:
        timeline.print_job(found)
    return exits.DONE


def _masked(job: JobView, redactor: Redactor) -> JobView:
    """What users put into a job is stored as it is, for the handler, and shown without its secrets (SPEC K1)."""
    acts = tuple(replace(act, reason=redactor.text(act.reason)) if act.reason else act for act in job.audit)
    names = ("payload", "result", "progress", "checkpoint", "meta")
    return replace(job, **{name: redactor.value(getattr(job, name)) for name in names}, audit=acts)


@jobs.command(
    epilog="Example: fencepost jobs retry --state failed --task mail.send --limit 100 --reason 'provider is back' --yes"
)
@click.argument("job_ids", nargs=-1, metavar="[JOB_ID]...")
@click.option("--state", type=click.Choice(ENDED), help="Instead of ids: all in this state that fit the other filters.")
@click.option("--task", help="With --state: only of this task.")
@click.option("--queue", help="With --state: only of this queue.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="With --state: at most so many."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@audited
@as_json
@target
def retry(
    target: Target,
    job_ids: tuple[str, ...],
    *,
    state: str | None,
    task: str | None,
    queue: str | None,
    limit: int,
    yes: bool,
    reason: str,
    actor: str | None,
    as_json: bool,
) -> int:
    """Queue ended jobs again: same row, same arguments, same idempotency key, attempts from 0.

    Who asked and why is kept on the job. Ends with 1 if one of them could not be retried.
    """
    _refuse_mixture(job_ids, state, task, queue)
    by = who(actor)
    with closing(target.open()) as app:
        ids: Iterable[str] = job_ids
        if state is not None:
            ids = _matching(app, state=state, task=task, queue=queue, limit=limit)
            if not _agreed(len(list(ids)), yes):
                return exits.FAILED
        return _act(ids, lambda one: app.client.retry(one, actor=by, reason=reason), RETRY_ANSWERS, as_json)


@jobs.command(epilog="Example: fencepost jobs cancel mail:7 --reason 'order was withdrawn'")
@click.argument("job_ids", nargs=-1, required=True, metavar="JOB_ID...")
@audited
@as_json
@target
def cancel(target: Target, job_ids: tuple[str, ...], *, reason: str, actor: str | None, as_json: bool) -> int:
    """Cancel jobs: a queued one at once, a running one cooperatively."""
    by = who(actor)
    with closing(target.open()) as app:
        return _act(
            job_ids, lambda one: (app.client.cancel(one, actor=by, reason=reason), None), CANCEL_ANSWERS, as_json
        )


def _act(
    ids: Iterable[str], act: Callable[[str], tuple[str, str | None]], sentences: dict[str, str], as_json: bool
) -> int:
    """Do it to each, say what came of it; 1 if one was refused."""
    answers = []
    for job_id in ids:
        answer, holder = act(job_id)
        answers.append({"job_id": job_id, "answer": answer, "holder": holder})
        if not as_json:
            sentence = sentences.get(answer, answer).format(holder=printable(holder or "-"))
            click.echo(f"job {printable(job_id)}: {sentence}", err=answer not in _GOOD)
    if as_json:
        print_json(answers)
    return exits.DONE if all(entry["answer"] in _GOOD for entry in answers) else exits.FAILED


def _refuse_mixture(job_ids: tuple[str, ...], state: str | None, task: str | None, queue: str | None) -> None:
    if job_ids and (state or task or queue):
        raise UsageError("job ids and filters exclude each other: name jobs, or give --state with --task and --queue")
    if not job_ids and state is None:
        raise UsageError("no job is named: give job ids, or --state failed (with --task, --queue, --limit)")


def _matching(app: App, *, state: str, task: str | None, queue: str | None, limit: int) -> list[str]:
    """The job_ids that fit, newest first, read page by page before the first is touched."""
    found: list[str] = []
    before: int | None = None
    while len(found) < limit:
        size = min(_PAGE, limit - len(found))
        page = app.client.list_jobs(state=state, task=task, queue=queue, limit=size, before=before)
        found += [job.job_id for job in page]
        if len(page) < size:
            break
        before = page[-1].id
    return found


def _agreed(number: int, yes: bool) -> bool:
    if yes or number == 0:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{number} jobs fit: give --yes to retry them without being asked")
    return click.confirm(f"Retry {number} jobs?", err=True)
