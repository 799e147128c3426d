"""Who had what, from which line of the database's log to which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Span:
    """One holder's time; ``end`` is None while it lasts."""

    what: Hashable
    id: int
    begin: int
    begin_tx: int
    end: int | None = None
    end_tx: int | None = None


class Spans:
    """Things that one job at a time may have.

    The order of lines is that of writing, not of commit. Whoever takes a thing that is being given away waits for the
    commit, so its line comes behind; only one transaction may do both in any order.
    """

    def __init__(self) -> None:
        self._of_job: defaultdict[int, list[Span]] = defaultdict(list)

    def begin(self, what: Hashable, job: int, n: int, tx: int) -> None:
        """From line ``n`` on the job has it."""
        self._of_job[job].append(Span(what, job, n, tx))

    def end(self, job: int, n: int, tx: int) -> None:
        """From line ``n`` on the job has nothing more."""
        for span in self._of_job.get(job, ()):
            if span.end is None:
                span.end, span.end_tx = n, tx

    def has(self, job: int) -> bool:
        """Has the job something now?"""
        return any(span.end is None for span in self._of_job.get(job, ()))

    def of(self, job: int) -> list[Span]:
        """All that the job ever had."""
        return self._of_job.get(job, [])

    def overlaps(self) -> Iterator[tuple[Span, Span]]:
        """Pairs of jobs that had the same thing at once, the earlier first."""
        by_thing: defaultdict[Hashable, list[Span]] = defaultdict(list)
        for spans in self._of_job.values():
            for span in spans:
                by_thing[span.what].append(span)
        for spans in by_thing.values():
            spans.sort(key=lambda span: span.begin)
            last = spans[0]
            for span in spans[1:]:
                over = last.end is not None and (last.end < span.begin or last.end_tx == span.begin_tx)
                if not over and last.id != span.id:
                    yield last, span
                if last.end is not None and (span.end is None or span.end > last.end):
                    last = span
