"""The next release: a report goes to several addresses, in a language. It still knows what version 1 said."""

from __future__ import annotations

from fencepost import App, JobContext
from worker.apps.scenario_app import note

app = App.from_env(name="reports")


@app.task("report.send", version=2)
async def send(
    job: JobContext, order: int, to: list[str] | None = None, mail: str | None = None, language: str = "en"
) -> None:
    """``mail``: of version 1."""
    note("sent", job, release=2, to=to or [mail], order=order, language=language)
