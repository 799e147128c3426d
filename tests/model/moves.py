"""The moves of a history: each asks the storage and the model the same, and compares their answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from model.promises import Promises
from model.reference import Model
from model.seen import seen
from model.storage import Storage, moment
from model.things import Fence, Input, Policy, Write
from model.wishes import JOB_IDS

EPOCH = 1_893_456_000
"""2030-01-01, where every history begins."""

OVER = {"succeeded", "failed", "cancelled", "skipped"}


class Moves:
    """One history."""

    def __init__(self, storage: Storage) -> None:
        self.storage, self.model, self.promises = storage, Model(EPOCH), Promises()
        self.storage.begin(EPOCH)
        self.heard = Counter[str]()
        self.fences = list[Fence]()
        self.by_the_stale = False

    def look(self) -> None:
        """The storage shows what the model does; and no promise is broken."""
        real, foreseen = self.storage.seen(), seen(self.model)
        for part in foreseen:
            if real[part] != foreseen[part]:
                is_same(part, *_differing(real[part], foreseen[part]))
        self.promises.look(real, by_the_stale=self.by_the_stale)
        self.by_the_stale = False

    def _hear(self, name: str, real: Any, foreseen: Any) -> None:
        is_same(name, real, foreseen)
        self.heard.update(f"{name}: {word}" for word in _words(real))

    # ------------------------------------------------------------------------------------------------------- time

    def time_moves(self, span: int) -> None:
        self._set_time(self.model.now + span)

    def time_moves_to_where_something_is_due(self, n: int, off: int) -> None:
        ahead = sorted(at for at in self._instants() if at + off > self.model.now)
        if ahead:
            self._set_time(ahead[n % len(ahead)] + off)

    def _set_time(self, now: int) -> None:
        self.model.now = now
        self.storage.set_time(now)

    def _instants(self) -> set[int]:
        found = {
            at
            for job in self.model.waiting()
            for at in (job.run_at, job.row_start_by, job.row_finish_by)
            if at is not None
        }
        found |= {job.lease.last_sign + job.lease.ttl_s for job in self.model.jobs.values() if job.lease}
        found |= {beat + 60 for beat, _ in self.model.workers.values()} | {
            x.expires_at for x in self.model.leaders.values()
        }
        for job in self.model.jobs.values():
            if job.end is not None and job.end.purge_at is not None and job.end.run.ended_at is not None:
                found |= {job.end.purge_at, job.end.run.ended_at + self.model.window_s(job)}
        return found

    # ----------------------------------------------------------------------------------------------------- callers

    def enqueue(self, batch: list[Input], on_terminal: str, ckey: str | None) -> None:
        """``ckey``: of all of them, so that several wait behind one limit."""
        inputs = [self._at(one if ckey is None else one._replace(ckey=ckey)) for one in batch]

        real = self.storage.enqueue(inputs, on_terminal)

        self._hear("enqueue", real, self.model.enqueue(inputs, on_terminal))
        self._note_queued(real)

    def enqueue_from_sql(self, one: Input, after_window_s: int | None) -> None:
        """``after_window_s``: of a job that has succeeded, so many seconds after its window ends."""
        for job in self.model.jobs.values() if after_window_s is not None else ():
            if job.end is not None and job.state == "succeeded" and job.end.run.ended_at is not None:
                one = one._replace(job_id=job.wanted.job_id, task=job.wanted.task)
                self._set_time(
                    max(self.model.now, job.end.run.ended_at + self.model.window_s(job) + (after_window_s or 0))
                )
                break
        wanted = self._at(one._replace(version=None))

        real = self.storage.enqueue_from_sql(wanted)

        self._hear("enqueue", real, self.model.enqueue([wanted]))
        self._note_queued(real)

    def _at(self, one: Input) -> Input:
        def at(offset: int | None) -> int | None:
            return None if offset is None else self.model.now + offset

        return one._replace(run_at=at(one.run_at), start_by=at(one.start_by), finish_by=at(one.finish_by))

    def _note_queued(self, answers: Sequence[tuple[Any, ...]]) -> None:
        for answer, id_, *_ in answers:
            if answer in {"created", "resubmitted"}:
                self.promises.queued(id_)

    # ----------------------------------------------------------------------------------------------------- workers

    def claim(self, token: int, lanes: list[tuple[str, int, str]], ttl_s: int, due: bool, one: int) -> None:
        if due:
            self.promote(100)

        real = self.storage.claim(token, lanes, ttl_s, only_one=one == 5)

        self._hear("claim", real, self.model.claim(token, lanes, ttl_s, only_one=one == 5))
        self.heard.update({"claim: run": len(real[1]), "claim: aside": real[0]})
        for run in real[1]:
            self.promises.claimed(run["id"], run["run_count"])
            self.fences.append(Fence(run["id"], run["run_count"], token))

    def _fences(self, picks: list[tuple[str, int]]) -> list[Fence]:
        """Different ones. Of what was never given out yet, everything is forged."""
        found = list[Fence]()
        live = [fence for fence in self.fences if self.model.run_of(fence)]
        again = {fence.id for fence in live}
        zombies = [fence for fence in self.fences if fence.id in again and fence not in live]
        for kind, n in picks:
            some = {"live": live, "zombie": zombies}.get(kind) or self.fences or [Fence(1, 1, 1)]
            fence = some[-1 - n % len(some)]
            if kind == "forged":
                fence = fence._replace(token=4) if n % 2 else fence._replace(run_count=fence.run_count + 1)
            found += [fence] if fence not in found else []
        self.by_the_stale = self.promises.are_stale(found)
        return found

    def beat(self, picks: list[tuple[str, int]], started: bool, progress: int | None, others: set[int]) -> None:
        fences = self._fences(picks)

        real = self.storage.beat(fences, started, progress, others)

        self._hear("beat", real, self.model.beat(fences, started, progress, others))

    def start(self, picks: list[tuple[str, int]]) -> None:
        fences = self._of_one_token(self._fences(picks))

        real = self.storage.start(fences[0].token, fences)

        self._hear("start", real, self.model.start(fences))

    def checkpoint(self, pick: tuple[str, int], data: int) -> None:
        (fence,) = self._fences([pick])

        real = self.storage.checkpoint(fence, data)

        self._hear("checkpoint", real, self.model.checkpoint(fence, data))

    def _of_one_token(self, fences: list[Fence]) -> list[Fence]:
        """A worker speaks for itself, and of a job once."""
        mine = {fence.id: fence for fence in reversed(fences) if fence.token == fences[0].token}
        self.by_the_stale = self.promises.are_stale(list(mine.values()))
        return list(mine.values())

    def settle(self, endings: list[tuple[Any, ...]], defer: bool) -> None:
        chosen = self._fences([ending[0] for ending in endings])
        fences = self._of_one_token(chosen)
        writes = [Write(fence, *ending[1:]) for fence, ending in zip(fences, endings, strict=False)]
        if defer:  # an error would be the user's
            writes = [write._replace(result=None) for write in writes]

        real = self.storage.settle(fences[0].token, writes, defer)

        self._compare("settle", real, self.model.settle(writes, defer), {fence.id: fence for fence in fences})

    def rescue(self, limit: int, grace_s: int, late_s: int | None, by_claim: bool) -> None:
        """Often so many seconds after some lease ends, or would have ended without its beats."""
        leases = [job.lease for job in self.model.jobs.values() if job.lease]
        if late_s is not None and leases:
            beaten = [lease for lease in leases if lease.heartbeat_at is not None] or leases
            since = beaten[-1].claimed_at if by_claim else leases[-1].last_sign
            self._set_time(max(self.model.now, since + (beaten if by_claim else leases)[-1].ttl_s + late_s))
        held = self._held()

        real = self.storage.rescue(limit, grace_s)

        self._compare("rescue", real, self.model.rescue(limit, grace_s), held)

    def rescue_process(self, token: int, ids: list[int], kinds: list[int]) -> None:
        held = self._held()
        known = sorted(held) or [1]
        classes: tuple[list[int], list[int], list[int]] = ([], [], [])
        for kind, n in zip(kinds, ids, strict=False):
            classes[kind].append(known[n % len(known)])

        real = self.storage.rescue_process(token, *classes)

        self._compare("rescue_process", real, self.model.rescue_process(token, *classes), held)

    def _held(self) -> dict[int, Fence]:
        return {fence.id: fence for fence in self.fences if self.model.run_of(fence)}

    def _compare(
        self, name: str, real: Sequence[tuple[Any, ...]], foreseen: dict[int, Any], by_id: dict[int, Fence]
    ) -> None:
        is_same(name, sorted(real), sorted((id_, *told) for id_, told in foreseen.items()))
        for id_, answer, state in real:
            self.heard[f"{name}: {answer}, {state}"] += 1
            if answer == "accepted":
                self.promises.accepted(by_id[id_], state)

    # --------------------------------------------------------------------------------------------------- operators

    def _job_id(self, n: int, states: Collection[str]) -> str:
        """Mostly of a job in one of these states, if there is any; at times of any or of none."""
        fit = [job.wanted.job_id for job in self.model.jobs.values() if job.state in states]
        return fit[n % len(fit)] if fit and n % 4 else JOB_IDS[n % len(JOB_IDS)]

    def cancel(self, n: int) -> None:
        job_id = self._job_id(n, {"queued", "running"})

        real = self.storage.value("select fencepost.cancel_v1(%s, 'ann')", job_id)

        self._hear("cancel", real, self.model.cancel(job_id, "ann"))

    def resubmit(self, n: int) -> None:
        job_id = self._job_id(n, OVER)

        real = self.storage.ask("select answer, holder from fencepost.resubmit_v1(%s, 'bob')", job_id)[0]

        self._hear("resubmit", real, self.model.resubmit(job_id, "bob"))
        if real[0] == "resubmitted":
            self._note_queued_again(job_id)

    def _note_queued_again(self, job_id: str) -> None:
        job = self.model.find(job_id)
        assert job is not None
        self.promises.queued(job.id)

    def resolve(self, n: int, verdict: str, result: int | None) -> None:
        job_id = self._job_id(n, {"in_doubt"})

        query = "select fencepost.resolve_v1(%s, %s, 'ann', null, %s::jsonb)"
        real = self.storage.value(query, job_id, verdict, None if result is None else str(result))

        self._hear("resolve", real, self.model.resolve(job_id, verdict, "ann", result))
        if (real, verdict) == ("resolved", "queued"):
            self._note_queued_again(job_id)

    def discard(self, n: int) -> None:
        job_id = self._job_id(n, OVER)

        real = self.storage.value("select fencepost.discard_v1(%s, 'bob')", job_id)

        self._hear("discard", real, self.model.discard(job_id, "bob"))

    def pause(self, queue: str, paused: bool) -> None:
        real = self.storage.value("select fencepost.queue_pause_v1(%s, %s, 'ann')", queue, paused)

        self._hear("pause", real, self.model.pause(queue, paused, "ann"))

    def make_fair(self, queue: str, turn: bool) -> None:
        """``turn``: to what it is not."""
        fair = self.model.fair.get(queue, False) != turn

        self.storage.ask("select fencepost.queue_fair_v1(%s, %s)", queue, fair)

        self.model.make_fair(queue, fair)

    def limit(self, ckey: str, lim: int) -> None:
        self.storage.ask("select fencepost.gate_limit_v1(%s, %s)", ckey, lim)

        self.model.limit(ckey, lim)

    # ------------------------------------------------------------------------------------------------------ duties

    def promote(self, limit: int) -> None:
        self._hear("promote", self.storage.value("select fencepost.promote_v1(%s)", limit), self.model.promote(limit))

    def expire(self) -> None:
        self._hear("expire", self.storage.value("select fencepost.expire_v1(1000)"), self.model.expire())

    def purge(self, late_s: int | None) -> None:
        """Often so many seconds after the time of some ended job is over."""
        over = [job.end.purge_at for job in self.model.jobs.values() if job.end and job.end.purge_at is not None]
        if late_s is not None and over:
            self._set_time(max(self.model.now, over[-1] + late_s))

        self._hear("purge", self.storage.value("select fencepost.purge_v1(1000)"), self.model.purge())

    def retention(self, task: str) -> None:
        real = self.storage.value("select changed from fencepost.retention_v1(%s, 1000)", task)

        self._hear("retention", real, self.model.retention(task))

    def sweep_gates(self, limit: int) -> None:
        real = self.storage.value("select fencepost.gate_sweep_v1(%s)", limit)

        self._hear("sweep_gates", real, self.model.sweep_gates(limit))

    def recount(self, ckeys: list[str]) -> None:
        real = self.storage.value("select fencepost.gate_recount_v1(%s::text[])", ckeys)

        self._hear("recount", real, self.model.recount(ckeys))

    def a_worker_comes_or_goes(self, token: int, here: bool, tasks: dict[str, int]) -> None:
        if here:
            self.storage.ask("select fencepost.register_v1(%s, 'host', 1, %s::jsonb)", token, json.dumps(tasks))
            self.model.register(token, tasks)
        else:
            self.storage.ask("select fencepost.unregister_v1(%s)", token)
            self.model.unregister(token)

    def publish_a_task(self, task: str, policy: Policy) -> None:
        self._hear("publish", self.storage.publish(task, policy), self.model.publish(task, policy))

    def wake_known(self, silent_s: int | None) -> None:
        """Often so many seconds after the last sign of some worker."""
        beats = [beat for beat, _ in self.model.workers.values()]
        if silent_s is not None and beats:
            self._set_time(max(self.model.now, beats[-1] + silent_s))

        self._hear("wake_known", self.storage.value("select fencepost.wake_known_v1(1000)"), self.model.wake_known())

    def lead(self, name: str, token: int, lease_s: int, knows: bool) -> None:
        good_at = self.model.now if knows else None

        query = "select leads, epoch, public.s(good_at) from fencepost.lead_v1(%s, %s, %s, null, null, %s)"
        real = self.storage.ask(query, name, token, lease_s, moment(good_at))[0]

        self._hear("lead", real, self.model.lead(name, token, lease_s, good_at))

    def resign(self, name: str, token: int) -> None:
        real = self.storage.value("select fencepost.resign_v1(%s, %s)", name, token)

        self._hear("resign", real, self.model.resign(name, token))


def is_same(part: str, real: Any, foreseen: Any) -> None:
    assert real == foreseen, f"{part}\n   storage: {real}\n     model: {foreseen}"


def _words(real: Any) -> list[str]:
    """What of an answer is counted: its words."""
    if isinstance(real, (list, tuple)):
        return [word for one in real for word in _words(one)]
    return [str(real)] if isinstance(real, (str, bool)) and len(str(real)) > 1 else []


def _differing(real: Any, foreseen: Any) -> tuple[Any, Any]:
    """Of two tables the rows, of two rows the columns, that differ."""
    if not (isinstance(real, dict) and isinstance(foreseen, dict)):
        return real, foreseen
    names = [name for name in {**real, **foreseen} if real.get(name) != foreseen.get(name)]
    pairs = {name: _differing(real.get(name), foreseen.get(name)) for name in names}
    return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}
