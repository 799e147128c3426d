"""What a reader of the schema finds: the view ``jobs`` and what lies beside it, as the model predicts it.

The same shape as `storage.Storage.seen` gives: a table is a dict by its key, a row is a dict by its columns.
"""

from __future__ import annotations

from typing import Any

from model.reference import Model
from model.things import Job, Run

Rows = dict[str, dict[str, Any]]


def seen(model: Model) -> dict[str, Any]:
    """Everything that is compared after each rule."""
    return {
        "jobs": {str(job.id): _job(model, job) for job in model.jobs.values()},
        "places": {
            str(job.id): _place(job) for job in model.jobs.values() if job.place in {"ready", "delayed", "parked"}
        },
        "runs": {f"{job.id}/{run.run_count}": _run(run) for job in model.jobs.values() for run in _runs(job)},
        "purges": {str(job.id): job.end.purge_at for job in model.jobs.values() if job.end},
        "held": {f"{x.wanted.task}/{x.wanted.key}": x.id for x in model.jobs.values() if x.holds_its_key},
        "gates": {ckey: [lim, model.used(ckey)] for ckey, lim in model.limits.items()},
        "slots_due": list(model.slots_due),
        "workers": {str(token): list(known) for token, known in model.workers.items()},
        "leaders": {name: vars(role) for name, role in model.leaders.items()},
        "daily": {"/".join(map(str, key)): n for key, n in model.daily.items()},
        "audit": [list(row) for row in model.audit],
        "fsck": [],
        "quarantine": [],
    }


def _job(model: Model, job: Job) -> dict[str, Any]:
    end, lease, carry, wanted = job.end, job.lease, job.carry, job.wanted
    ran = lease is not None or end is not None
    run = end.run if end else None
    code = run.code if run and run.code is not None else carry.code if carry else None
    error = run.error if run and run.error is not None else carry.error if carry else None
    progress = lease.progress if lease and lease.progress is not None else carry.progress if carry else None
    claimed_at = lease.claimed_at if lease else run.claimed_at if run else None
    return {
        "job_id": wanted.job_id, "task": wanted.task, "version": job.version, "queue": job.queue, "state": job.state,
        "label": _label(model, job), "attempts": job.attempts, "run_count": job.run_count, "crashes": job.crashes,
        "snoozes": job.snoozes, "priority": job.priority, "heartbeat_at": lease.last_sign if lease else None,
        "last_error_code": code, "last_error": error,
        "next_retry_at": job.run_at if job.reason in {"retry", "crash"} else None,
        "run_at": job.asked_at if end else job.run_at, "parked_for": job.reason if job.place == "parked" else None,
        "worker": None if not ran else lease.token if lease else run.token if run else None, "progress": progress,
        "cancel_at": lease.cancel_at if lease else None, "created_at": job.created_at, "claimed_at": claimed_at,
        "finished_at": run.ended_at if run else None, "stale": bool(end and end.stale),
        "result": end.result if end else None, "payload": wanted.payload,
        "checkpoint": carry.checkpoint if carry else None, "unique_key": wanted.key, "concurrency_key": wanted.ckey,
        "tenant": wanted.tenant, "start_by": job.start_by, "finish_by": job.finish_by, "resubmits": job.resubmits,
        "manual": job.manual, "generation": job.generation,
    }  # fmt: skip


def _label(model: Model, job: Job) -> str:
    """The first that fits (SPEC L1)."""
    if job.end is not None:
        return job.end.state
    if job.lease is not None:
        return "lost" if job.lease.last_sign < model.now - job.lease.ttl_s else "running"
    if job.crashes > 0 and job.runs and job.runs[-1].how == "stale":
        return "recovered"
    if job.attempts > 0:
        return "retrying"
    if job.place == "delayed" and job.run_at > model.now:
        return "scheduled"
    if job.place == "parked":
        return "parked"
    return "paused" if model.paused.get(job.queue) else "queued"


def _place(job: Job) -> list[Any]:
    return [job.place, job.reason, job.run_at, job.row_start_by, job.row_finish_by, job.fair_key]


def _runs(job: Job) -> list[Run]:
    """Those of its history, that which ended it, that which goes on."""
    found = list(job.runs)
    if job.end is not None and job.end.run.token is not None:
        found.append(job.end.run)
    if job.lease is not None:
        now = job.lease
        found.append(
            Run(
                job.run_count,
                now.token,
                now.claimed_at,
                now.started_at,
                None,
                now.last_sign,
                now.max_gap,
                "running",
                None,
            )
        )
    return found


def _run(run: Run) -> list[Any]:
    return [
        run.token, run.claimed_at, run.started_at, run.ended_at, run.last_beat_at, run.max_gap, run.how, run.spent, run.code,
        run.error, run.refused,
    ]  # fmt: skip
