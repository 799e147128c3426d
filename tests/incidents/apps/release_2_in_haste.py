"""A release that forgot the jobs that wait: it takes nothing that version 1 said."""

from __future__ import annotations

from fencepost import App, JobContext
from worker.apps.scenario_app import note

app = App.from_env(name="reports")


@app.task("report.send", version=2)
async def send(job: JobContext, order: int, to: list[str]) -> None:
    note("sent", job, release=2, to=to, order=order)
