"""The life of a job: enqueue, claim, start, beat, settle, checkpoint, rescue, promote.

Each flow is one statement that calls one function of the schema; the rules are there and are not repeated here. What is
here: arrays in, values out, and which refusals of the server are the caller's fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from fencepost.domain.job import Answer, ClaimedJob, Enqueued, Fence, NewJob
from fencepost.domain.outcome import Settlement
from fencepost.errors import SchemaError, UsageError
from fencepost.sql.catalog import Catalog
from fencepost.store import faults
from fencepost.store.flow import Flow, Row, Rows, Stmt

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class BadClaim:
    """A claimed row that is no job this program can read. Its lease is held: settle it as failed."""

    fence: Fence
    reason: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim handed out. ``aside``: so many rows were moved aside or left to others; claim again soon."""

    jobs: list[ClaimedJob]
    bad: list[BadClaim]
    aside: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer to one outcome.

    ``accepted``: written, and the job became ``state``, which a cancel request, a deadline or the policy may have
    changed; ``already``: this very run was settled before, an answer was lost; ``lost``: the lease was taken away,
    nothing was written; ``busy``: the row is locked, perhaps by our own lost connection: send it again.
    """

    answer: str
    state: str | None


@dataclass(frozen=True, slots=True)
class Rescued:
    """One lease that was taken back, and what its job became."""

    id: int
    answer: str
    state: str | None


# ------------------------------------------------------------------------------------------------------------- enqueue


def enqueue(
    sql: Catalog, jobs: Sequence[NewJob], *, on_terminal: str = "resubmit", notify: bool = True
) -> Flow[list[Enqueued]]:
    """Add jobs in the transaction of the connection; one answer each, in order (SPEC Q3, Q5, Q11).

    ``on_terminal="exists"`` is for a repetition after a lost answer: a job that ended meanwhile is not started anew.
    Raises UsageError for values that PostgreSQL cannot hold and SchemaError without a schema; 40001, deadlocks and lost
    connections come as the driver's errors, for the caller's own retry.
    """
    if not jobs:
        return []
    params = _new_jobs(jobs) | {"on_terminal": on_terminal, "notify": notify}
    try:
        rows = yield Stmt(sql.statement("jobs/enqueue"), params)
    except Exception as error:
        meaning = faults.translate(error)
        if isinstance(meaning, UsageError | SchemaError):
            raise meaning from error
        raise
    return [
        Enqueued(_ANSWERS[answer], job_id, id_, holder, bool(differs))
        for _, job_id, id_, answer, holder, differs in sorted(rows)
    ]


_ANSWERS = {answer.value: answer for answer in Answer}


def _new_jobs(jobs: Sequence[NewJob]) -> dict[str, Any]:
    return {
        "job_id": [job.job_id for job in jobs],
        "task": [job.task for job in jobs],
        "payload": [job.payload for job in jobs],
        "queue": _sparse([job.queue for job in jobs]),
        "priority": _sparse([job.priority for job in jobs]),
        "run_at": _sparse([job.run_at for job in jobs]),
        "unique_key": _sparse([job.unique_key for job in jobs]),
        "ckey": _sparse([job.concurrency_key for job in jobs]),
        "opts": _sparse([_options(job) for job in jobs]),
    }


def _options(job: NewJob) -> str | None:
    """The rare options as one JSON object; None when there are none, which costs nothing."""
    if not (
        job.delay_s or job.tenant or job.start_by or job.finish_by or job.dedup_s is not None or job.tags or job.meta
    ):
        return _usual_options(job.version, job.max_attempts, job.delay_s)
    rare: dict[str, Any] = {
        "version": job.version,
        "delay_s": job.delay_s,
        "tenant": job.tenant,
        "start_by": job.start_by and job.start_by.isoformat(),
        "finish_by": job.finish_by and job.finish_by.isoformat(),
        "max_attempts": job.max_attempts,
        "dedup_s": job.dedup_s,
        "tags": list(job.tags) or None,
        "meta": dict(job.meta) or None,
    }
    return _json(rare)


@lru_cache(1000)
def _usual_options(version: int | None, max_attempts: int | None, delay_s: float | None) -> str | None:
    """What a task's declaration gives to every job of it."""
    return _json({"version": version, "max_attempts": max_attempts, "delay_s": delay_s})


def _json(options: Mapping[str, Any]) -> str | None:
    given = {name: value for name, value in options.items() if value is not None}
    return json.dumps(given, allow_nan=False, ensure_ascii=False, separators=(",", ":")) if given else None


# --------------------------------------------------------------------------------------------------------------- claim


def claim(
    sql: Catalog,
    token: int,
    quotas: Mapping[str, int],
    *,
    max_bytes: int,
    ttl_s: float,
    after: Mapping[str, str] | None = None,
) -> Flow[Claimed]:
    """Take up to ``quotas[queue]`` jobs of each queue, best first, of about ``max_bytes`` of payload (SPEC C1, C2).

    ``token`` becomes part of each fence; ``ttl_s`` is for tasks without one of their own; ``after`` has the tenant that
    each fair queue served last. A row that cannot be read is put into ``bad`` and stops no other (SPEC C12).
    """
    queues = [queue for queue, quota in quotas.items() if quota > 0]
    if not queues:
        return Claimed([], [])
    rows = yield Stmt(
        sql.statement("jobs/claim"),
        {
            "token": token,
            "queues": queues,
            "quotas": [quotas[queue] for queue in queues],
            "max_bytes": max_bytes,
            "ttl_s": ttl_s,
            "after": [(after or {}).get(queue) for queue in queues],
        },
    )
    return _claimed(rows, token)


def _claimed(rows: Rows, token: int) -> Claimed:
    found = Claimed([], [])
    aside = 0
    for row in rows:
        if row[0] is None:
            aside += row[1]
            continue
        try:
            found.jobs.append(_claimed_job(row))
        except (TypeError, ValueError) as error:
            found.bad.append(BadClaim(Fence(row[0], row[1], token), faults.explain(error)))
    return replace(found, aside=aside)


def _claimed_job(row: Row) -> ClaimedJob:
    """The columns come in the order of the fields; ``at_most_once`` and ``tags`` are NULL for their usual values."""
    job = ClaimedJob(*row)
    job.at_most_once = bool(job.at_most_once)
    job.tags = tuple(job.tags) if job.tags else ()
    return job


# ------------------------------------------------------------------------------------------------------- while it runs


def start(sql: Catalog, token: int, fences: Sequence[Fence]) -> Flow[dict[Fence, str]]:
    """Make the start of these bodies durable, before they start; each ``ok``, ``cancel`` or ``lost`` (SPEC W12)."""
    answers: dict[Fence, str] = {}
    for some in _rounds(fences):
        rows = yield Stmt(sql.statement("jobs/start"), _fences(some) | {"token": token})
        answers |= _by_fence(some, {row[0]: row[1] for row in rows})
    return answers


def beat(
    sql: Catalog,
    fences: Sequence[Fence],
    *,
    started: Sequence[bool] | None = None,
    progress: Sequence[str | None] | None = None,
    workers: Sequence[int] = (),
) -> Flow[dict[Fence, str]]:
    """Keep these leases, of any number of processes, in one statement that waits for no lock (SPEC C3, C5).

    Each ``ok``, ``cancel`` (requested), ``busy`` (locked by somebody: not lost, not beaten, ask again) or ``lost``.
    ``progress`` is JSON text; one that cannot be stored is dropped and costs no lease. ``workers`` are the tokens of
    processes that live, with jobs or without.
    """
    answers: dict[Fence, str] = {}
    is_started = dict(zip(fences, started or (), strict=False))
    news = dict(zip(fences, progress or (), strict=False))
    for some in _rounds(fences) or [[]]:  # without leases the processes are kept all the same
        rows = yield Stmt(
            sql.statement("jobs/beat"),
            {
                **_fences(some),
                "token": _array([fence.token for fence in some]),
                "started": _column(some, is_started.get),
                "progress": _column(some, news.get),
                "workers": list(workers),
            },
        )
        answers |= _by_fence(some, dict(rows))
    return answers


def checkpoint(sql: Catalog, fence: Fence, data: str) -> Flow[bool]:
    """Store JSON text for the next run; durable when it returns, or with the caller's transaction. False: lease lost.

    Raises UsageError for text that is no storable JSON; nothing was written then.
    """
    params = {"token": fence.token, "id": fence.id, "run_count": fence.run_count, "data": data}
    try:
        rows = yield Stmt(sql.statement("jobs/checkpoint"), params)
    except Exception as error:
        if faults.is_bad_data(error):
            raise faults.translate(error) from error
        raise
    return bool(rows[0][0])


def mine(sql: Catalog, token: int) -> Flow[list[Fence] | None]:
    """The leases that the database believes this process to hold; asked after a reconnect, to release the unknown.

    None where a standby answered: it may not have heard of the newest.
    """
    standby, ids, run_counts = (yield Stmt(sql.statement("jobs/mine"), {"token": token}))[0]
    if standby:
        return None
    return [Fence(*pair, token) for pair in zip(ids or (), run_counts or (), strict=True)]


# -------------------------------------------------------------------------------------------------------------- settle


def settle(
    sql: Catalog, items: Sequence[tuple[Fence, Settlement]], *, defer: bool = False, again: bool = False
) -> Flow[dict[Fence, Settled]]:
    """Write how runs ended; all of one token. Safe to send again: the answer is then ``already`` (SPEC C3, W6).

    What PostgreSQL cannot hold ends its own job ``failed`` with UNSTORABLE and costs the others nothing. ``defer=True``
    inside a user's transaction: key slots are given back after its commit (SPEC E1). ``again=True`` after a call whose
    answer was lost: runs whose rows are still locked are answered ``busy`` at once, untouched. Without it a repetition
    behind a commit that waits for a standby would wait as well, on one more connection each time; it is for connections
    of our own, not together with ``defer``. Raises ValueError for two tokens.
    """
    ends = dict(items)
    tokens = {fence.token for fence in ends}
    if len(tokens) > 1:
        message = f"outcomes of one process at a time, not of {len(tokens)}"
        raise ValueError(message)
    answers: dict[Fence, Settled] = {}
    for some in _rounds(ends):
        told = yield from _settle_some(sql, [(fence, ends[fence]) for fence in some], defer, again and not defer)
        answers |= _by_fence(some, told)
    return answers


def _settle_some(
    sql: Catalog, items: list[tuple[Fence, Settlement]], defer: bool, again: bool
) -> Flow[dict[int, Settled]]:
    answers: dict[int, Settled] = {}
    if again:
        locked = yield Stmt(sql.statement("jobs/in_flight"), _fences([fence for fence, _ in items]))
        answers = {row[0]: Settled("busy", None) for row in locked}
        items = [item for item in items if item[0].id not in answers]
        if not items:
            return answers
    try:
        rows = yield _settle(sql, items, defer)
    except Exception as error:
        if faults.sqlstate(error) is not None or not faults.is_bad_data(error):
            raise
        rows = yield _settle(sql, [_storable(item) for item in items], defer)  # nothing had been sent
    return answers | {id_: _settled(answer, state) for id_, answer, state in rows}


@lru_cache(1000)
def _settled(answer: str, state: str | None) -> Settled:
    """There are few of them, and one is needed for every run."""
    return Settled(answer, state)


def _settle(sql: Catalog, items: Sequence[tuple[Fence, Settlement]], defer: bool) -> Stmt:
    acts = [settlement for _, settlement in items]
    return Stmt(
        sql.statement("jobs/settle"),
        {
            **_fences([fence for fence, _ in items]),
            "act": _array([one.act for one in acts]),
            "delay_s": _sparse([one.delay_s or None for one in acts]),
            "code": _sparse([one.code for one in acts]),
            "error": _sparse([one.error for one in acts]),
            "result": _sparse([one.result for one in acts]),
            "stats": _sparse([one.stats for one in acts]),
            "defer": defer,
        },
    )


def _storable(item: tuple[Fence, Settlement]) -> tuple[Fence, Settlement]:
    """A text that the driver cannot even send (NUL, a lone surrogate) makes the outcome one of constants."""
    fence, one = item
    for text in (one.code, one.error, one.result, one.stats):
        if text is not None and ("\0" in text or any("\ud800" <= char <= "\udfff" for char in text)):
            return fence, Settlement(act="fail", code="UNSTORABLE")
    return item


# -------------------------------------------------------------------------------------------------- rescue and promote


def rescue(sql: Catalog, *, limit: int, grace_s: float = 0.0, seen_at: datetime | None = None) -> Flow[list[Rescued]]:
    """Take back up to ``limit`` leases that are stale by their own ttl plus ``grace_s`` (SPEC C6, C10, C11).

    ``seen_at``: as of this moment of the database's clock; None: as of now.
    """
    rows = yield Stmt(sql.statement("jobs/rescue"), {"limit": limit, "grace_s": grace_s, "seen_at": seen_at})
    return [Rescued(*row) for row in rows]


def rescue_process(
    sql: Catalog,
    token: int,
    *,
    started: Iterable[int] = (),
    overdue: Iterable[int] = (),
    interrupted: Iterable[int] = (),
    limit: int = 10_000,
) -> Flow[list[Rescued]]:
    """Take back what a dead process ran; only after it and its process group are gone (SPEC W11).

    ``started``: count a crash. ``overdue``: killed at their maximum duration, an attempt is spent, code TIMEOUT.
    ``interrupted``: killed for a neighbour's sake, unspent (bodies that must not run twice: as lost). All others had
    not started and go back unspent.
    """
    rows = yield Stmt(
        sql.statement("jobs/rescue_process"),
        {
            "token": token,
            "started": list(started),
            "overdue": list(overdue),
            "interrupted": list(interrupted),
            "limit": limit,
        },
    )
    return [Rescued(*row) for row in rows]


def promote(sql: Catalog, limit: int) -> Flow[int]:
    """Make due jobs ready and give back slots that users' transactions left; how many."""
    rows = yield Stmt(sql.statement("jobs/promote"), {"limit": limit})
    return int(rows[0][0])


# ------------------------------------------------------------------------------------------------------------- columns


def _rounds(fences: Iterable[Fence]) -> list[list[Fence]]:
    """The fences, parted so that no statement names a job twice: the functions answer by id.

    Two runs of one job are rare and real: its lease was taken from a process, and the same one, or another of the same
    supervisor, has claimed it again.
    """
    fences = list(fences)
    if len({fence.id for fence in fences}) == len(fences):
        return [fences] if fences else []
    distinct = list(dict.fromkeys(fences))
    rounds: list[list[Fence]] = []
    named: dict[int, int] = {}
    for fence in distinct:
        turn = named[fence.id] = named.get(fence.id, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(fence)
    return rounds


def _by_fence(fences: Sequence[Fence], answers: Mapping[int, A]) -> dict[Fence, A]:
    """What the database said of the jobs, as what it said of these runs."""
    return {fence: answers[fence.id] for fence in fences if fence.id in answers}


def _fences(fences: Sequence[Fence]) -> dict[str, Any]:
    """The fences as columns, and the token of the first."""
    return {
        "token": fences[0].token if fences else None,
        "id": _array([fence.id for fence in fences]),
        "run_count": _array([fence.run_count for fence in fences]),
    }


def _array(values: Iterable[object]) -> str:
    """Whole numbers, or words that need no quotes, as the text of an array.

    The driver would ask each element for its type: ten times the work, and another prepared statement for each width.
    """
    return "{" + ",".join(map(str, values)) + "}"


def _column(rows: Sequence[Any], read: Callable[[Any], Any]) -> list[Any] | None:
    """One column of many rows; None when no row has it, so that it is not sent."""
    return _sparse([read(row) for row in rows])


def _sparse(values: list[Any]) -> list[Any] | None:
    """The column, or None when no row has it."""
    return None if values.count(None) == len(values) else values
