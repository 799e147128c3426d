"""How many jobs travel in one call: pure rules, shared by the sync and the async client.

Every job gets its ``job_id`` here, before it is sent: so a repetition of an enqueue whose answer was lost meets its own
row and cannot make a second one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fencepost.domain.job import Answer, Enqueued, NewJob
from fencepost.errors import UsageError

ROWS = 10_000
"""Jobs in one statement; more go in several statements of one transaction."""

CHARS = 16_000_000
"""Payload text in one statement, roughly."""

_KNOWN = frozenset({Answer.EXISTS, Answer.DEDUPLICATED, Answer.IN_DOUBT})
"""What a repetition is answered about a job that its own first try has made, and that a worker may have run meanwhile."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The jobs of one call, named; ``ours`` are the job_ids that were made here."""

    jobs: tuple[NewJob, ...]
    ours: frozenset[str]

    def pieces(self) -> Iterator[Sequence[NewJob]]:
        """In order, each small enough for one statement."""
        start, size = 0, 0
        for end, job in enumerate(self.jobs):
            if end > start and (end - start >= ROWS or size + len(job.payload) > CHARS):
                yield self.jobs[start:end]
                start, size = end, 0
            size += len(job.payload)
        if start < len(self.jobs):
            yield self.jobs[start:]

    @property
    def is_small(self) -> bool:
        """Whether everything fits into one statement, so that it needs no transaction block of its own."""
        return len(self.jobs) <= ROWS and sum(len(job.payload) for job in self.jobs) <= CHARS

    def doubtful(self, answers: Iterable[Enqueued]) -> list[str]:
        """After a repetition: the caller's own ids that "exist", by the first try or from before."""
        return [a.job_id for a in answers if a.status is Answer.EXISTS and a.job_id not in self.ours]

    def settled(self, answers: Iterable[Enqueued], *, again: bool) -> list[Enqueued]:
        """The answers as the caller reads them.

        After a repetition a job that is known by an id made here is the first try's: created, whatever became of it
        since. One that is known by the caller's own id may be anybody's, and the answer says that this is not known.
        """
        if not again:
            return list(answers)
        return [self._after_repetition(answer) for answer in answers]

    def _after_repetition(self, answer: Enqueued) -> Enqueued:
        if answer.status not in _KNOWN:
            return answer
        return answer._replace(status=Answer.CREATED) if answer.job_id in self.ours else answer._replace(unsure=True)


def batch(jobs: object) -> Batch:
    """Name the jobs that have no job_id. UsageError for what is no list of NewJob, before anything is sent."""
    named: list[NewJob] = []
    ours: set[str] = set()
    if not isinstance(jobs, Iterable) or isinstance(jobs, NewJob):  # one job is a tuple, but no list
        message = f"enqueue_many(...) takes a list of jobs made by task.new(...), not {type(jobs).__name__}"
        raise UsageError(message)
    for position, job in enumerate(jobs):
        if not isinstance(job, NewJob):
            message = f"item {position} must be a job made by task.new(...), not {type(job).__name__}"
            raise UsageError(message)
        if job.job_id is None:
            made = new_job_id()
            ours.add(made)
            named.append(job._replace(job_id=made))
        else:
            named.append(job)
    return Batch(tuple(named), frozenset(ours))


_FREE = ~(0xF000 << 64) & ~(0xC000 << 48)
_VERSION_7 = (0x7000 << 64) | (0x8000 << 48)


def new_job_id() -> str:
    """A UUID of version 7 (RFC 9562, 5.7): random, but rising with time, so that the index grows at its right edge."""
    stamp = (time.time_ns() // 1_000_000) << 80
    dice = int.from_bytes(os.urandom(10), "big")
    text = f"{(stamp | dice) & _FREE | _VERSION_7:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
