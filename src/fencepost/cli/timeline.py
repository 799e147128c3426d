"""How one job is shown: what it is, its runs as a timeline, and who acted on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.output import lasting, plain, print_facts, print_table, when

if TYPE_CHECKING:
    from fencepost.store.views import JobView, RunView


def print_job(job: JobView) -> None:
    """Everything about a job, for a person."""
    print_facts(
        [
            ("job", job.job_id),
            ("task", job.task),
            ("queue", job.queue),
            ("state", job.state if job.label == job.state else f"{job.state} ({job.label})"),
            ("attempts", f"{job.attempts} spent, {job.run_count} runs"),
            ("created", when(job.created_at)),
            ("due", when(job.run_at)),
            ("next retry", when(job.next_retry_at) if job.next_retry_at else None),
            ("ended", when(job.finished_at) if job.finished_at else None),
            ("cancel asked", when(job.cancel_at) if job.cancel_at else None),
            ("unique key", job.unique_key),
            ("concurrency key", job.concurrency_key),
            ("tags", ", ".join(job.tags) if job.tags else None),
            ("error", f"{job.last_error_code}: {_first_line(job.last_error)}" if job.last_error_code else None),
            ("payload", _short(job.payload)),
            ("progress", _short(job.progress)),
            ("result", _short(job.result)),
        ]
    )
    _print_runs(job)
    _print_audit(job)


def _print_runs(job: JobView) -> None:
    click.echo("\nruns")
    rows = [
        (
            str(run.run_count),
            f"{run.claimed_at.astimezone():%Y-%m-%d %H:%M:%S}" if run.claimed_at else "-",
            _took(run),
            run.how,
            "-" if run.spent is None else "spent" if run.spent else "given back",
            lasting(run.max_gap_s),
            run.error_code,
            run.refused or "-",
            _first_line(run.error),
        )
        for run in job.runs
    ]
    heads = ("run", "claimed", "took", "ended as", "attempt", "longest gap", "code", "late writes", "error")
    print_table(heads, rows, empty="  none yet")


def _print_audit(job: JobView) -> None:
    if not job.audit:
        return
    click.echo("\nacts")
    rows = [
        (f"{a.at.astimezone():%Y-%m-%d %H:%M:%S}", a.actor, a.action, f"{a.was or '-'} -> {a.became or '-'}", a.reason)
        for a in job.audit
    ]
    print_table(("when", "who", "what", "change", "why"), rows, empty="")


def _took(run: RunView) -> str:
    begun = run.started_at or run.claimed_at
    if begun is None or run.ended_at is None:
        return "-"
    return lasting((run.ended_at - begun).total_seconds())


def _first_line(text: str | None) -> str:
    return text.strip().splitlines()[0] if text and text.strip() else ""


def _short(value: Any) -> str | None:
    if value is None:
        return None
    import json

    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "… (--json shows all)"
