"""What observers and the log are told of runs: after the fact, and nothing depends on it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

from fencepost.domain.decide import SUCCEEDED
from fencepost.domain.job import ClaimedJob
from fencepost.domain.outcome import Settlement
from fencepost.tasks.events import JobEnded, JobStarted, LeaseLost, Observers
from fencepost.worker.child.held import Held

log = logging.getLogger("fencepost.worker")

_TROUBLE = frozenset({"retry", "fail", "doubt", "lost"})


@dataclass(slots=True)
class Written:
    """An outcome on its way: the same one is sent until it is answered."""

    held: Held
    settlement: Settlement


class Reports:
    """Tells of beginnings and ends. From any thread."""

    def __init__(self, observers: Observers) -> None:
        self._observers = observers

    def started(self, held: Held) -> None:
        """A body begins."""
        if self._observers.wanted(JobStarted):
            c = held.claimed
            waited = max(0.0, time.time() - c.due_s)
            self._observers.emit(JobStarted(**_facts(c), waited_s=waited))

    def ended(self, written: Written, state: str) -> None:
        """Its outcome is committed, and made this of the job."""
        one, held = written.settlement, written.held
        if self._observers.wanted(JobEnded):
            c = held.claimed
            self._observers.emit(
                JobEnded(
                    id=c.id,
                    job_id=c.job_id,
                    task=c.task,
                    queue=c.queue,
                    attempt=c.attempts,
                    run_count=c.run_count,
                    act=one.act,
                    state=state,
                    seconds=0.0 if held.started_at is None else time.monotonic() - held.started_at,
                    code=one.code,
                    error=one.error,
                    delay_s=one.delay_s,
                )
            )
        if one is not SUCCEEDED or log.isEnabledFor(logging.DEBUG):
            self._log(written)

    def came_too_late(self, written: Written) -> None:
        """Its outcome was refused."""
        c = written.held.claimed
        log.warning("the outcome of job %s (run %d) came too late: its lease was lost", c.job_id, c.run_count)
        if self._observers.wanted(LeaseLost):
            self._observers.emit(LeaseLost(**_facts(c)))
        self._log(written)

    def _log(self, written: Written) -> None:
        one, c = written.settlement, written.held.claimed
        if one.act in _TROUBLE:
            text = "job %s (%s), attempt %d of %d: %s %s"
            log.warning(text, c.job_id, c.task, c.attempts, c.max_attempts, one.act, one.code or "")
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("job %s (%s), attempt %d: %s", c.job_id, c.task, c.attempts, one.act)


def _facts(c: ClaimedJob) -> dict[str, Any]:
    return {
        "id": c.id,
        "job_id": c.job_id,
        "task": c.task,
        "queue": c.queue,
        "attempt": c.attempts,
        "run_count": c.run_count,
    }
