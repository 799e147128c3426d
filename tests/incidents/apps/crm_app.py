"""The CRM of the last incident: its 503 has a name, and the second run does not come to tell what it has made."""

from __future__ import annotations

from fencepost import App, JobContext, RetryPolicy
from incidents.apps.outside import make, wait_at
from worker.apps.scenario_app import note, noted

app = App.from_env(name="crm", classify=[(503, "CRM_TEMPORARY_UNAVAILABLE")])


@app.task("crm.sync", retry=RetryPolicy(max_attempts=5, backoff="2s", jitter=0))
def sync(job: JobContext, project: int) -> int:
    with noted(job):
        made = make(job.idempotency_key("crm-project", project), f"project {project}")
        note("made", job, object=made)
        if job.run_count == 2:
            wait_at("never", job)
        return made
