"""Values that describe a job: what a caller asks for, what enqueue answers, what a claim hands out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_S = (datetime(1, 1, 3, tzinfo=UTC) - _EPOCH).total_seconds()
_LAST_S = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH).total_seconds()


class Answer(StrEnum):
    """What enqueue did with one input (SPEC Q11). Answers are values; a duplicate is never an error."""

    CREATED = "created"
    EXISTS = "exists"
    DEDUPLICATED = "deduplicated"
    RESUBMITTED = "resubmitted"
    SKIPPED = "skipped"
    IN_DOUBT = "in_doubt"


class NewJob(NamedTuple):
    """One job as a caller asks for it, validated and encoded: nothing in it can be refused by PostgreSQL any more.

    ``payload`` is JSON text. ``None`` means "the task's default" everywhere. Times are aware datetimes;
    ``delay_s`` and ``dedup_s`` are seconds.
    """

    task: str
    payload: str
    version: int | None = None
    job_id: str | None = None
    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay_s: float | None = None
    unique_key: str | None = None
    concurrency_key: str | None = None
    tenant: str | None = None
    start_by: datetime | None = None
    finish_by: datetime | None = None
    max_attempts: int | None = None
    dedup_s: float | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] = {}  # nobody changes it


class Enqueued(NamedTuple):
    """One answer of enqueue.

    ``job_id`` names the job that the answer speaks of; for ``skipped`` ``holder`` is the job_id that holds the unique
    key and ``id`` is that job's. ``differs`` says that the same job_id had been enqueued with another task or other
    arguments: those stay, unless the answer is ``resubmitted``: then the new ones have replaced them. ``created`` is a
    promise only once the surrounding transaction has committed.

    ``unsure``: the connection was lost and the call was sent again, with a job_id of the caller's own. The job is there,
    in the state that the answer says, but whether this call's first try has made it or somebody before is not known.
    """

    status: Answer
    job_id: str
    id: int
    holder: str | None = None
    differs: bool = False
    unsure: bool = False

    @property
    def is_new(self) -> bool:
        """Whether this call gave the job a (new) life. Also false if it only may have: see ``unsure``."""
        return self.status in (Answer.CREATED, Answer.RESUBMITTED)


class Fence(NamedTuple):
    """The right to write for one run: every later write names all three (SPEC C3)."""

    id: int
    run_count: int
    token: int


@dataclass(slots=True)
class ClaimedJob:
    """One run as the claim handed it out. ``payload`` and ``checkpoint`` are raw JSON text, decoded row by row.

    Nobody changes it. It is not frozen because that costs four times as much to make, and one is made for every run; and
    times that few look at are seconds since 1970.
    """

    id: int
    run_count: int
    job_id: str
    queue: str
    task: str
    version: int
    payload: str
    attempts: int
    max_attempts: int
    crashes: int
    snoozes: int
    generation: int
    at_most_once: bool
    ttl_s: float
    due_s: float
    created_s: float
    finish_by: datetime | None
    fair_key: str | None
    checkpoint: str | None
    meta: str | None
    tags: tuple[str, ...] = ()
    finish_in_s: float | None = None
    """Seconds until ``finish_by`` at the claim, by the database's clock."""

    @property
    def run_at(self) -> datetime:
        """When it became due."""
        return _moment(self.due_s)

    @property
    def created_at(self) -> datetime:
        """When it was enqueued."""
        return _moment(self.created_s)


def _moment(seconds: float) -> datetime:
    """Of the Unix epoch; what Python has no date for becomes the nearest that it has (SPEC C12)."""
    return _EPOCH + timedelta(seconds=max(_FIRST_S, min(seconds, _LAST_S)))
