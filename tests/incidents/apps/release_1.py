"""The release that is out: a report goes to one address."""

from __future__ import annotations

from fencepost import App, JobContext
from worker.apps.scenario_app import note

app = App.from_env(name="reports")


@app.task("report.send")
async def send(job: JobContext, order: int, mail: str) -> None:
    note("sent", job, release=1, to=[mail], order=order)
