"""The model's way in: what there is, enqueue and claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from model.things import End, Fence, Input, Job, Leader, Lease, Policy, Run


class WaysIn:
    """Everything that the schema holds, at ``now``, and how jobs come into the queue and out of it into a run."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.next_id = 1
        self.jobs: dict[int, Job] = {}
        self.tasks: dict[str, Policy] = {}
        self.paused: dict[str, bool] = {}
        self.fair: dict[str, bool] = {}
        self.limits: dict[str, int] = {}
        self.slots_due: list[str] = []
        self.leaders: dict[str, Leader] = {}
        self.workers: dict[int, tuple[int, dict[str, int]]] = {}
        self.daily: Counter[tuple[int, str, str, str]] = Counter()
        self.audit: list[tuple[int | None, str, str | None, str | None, str | None]] = []

    # ---------------------------------------------------------------------------------------------------- looking

    def find(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs.values() if job.wanted.job_id == job_id), None)

    def holder(self, task: str, key: str | None) -> Job | None:
        held = (job for job in self.jobs.values() if job.holds_its_key)
        return next((job for job in held if (job.wanted.task, job.wanted.key) == (task, key)), None)

    def policy(self, task: str) -> Policy:
        return self.tasks.get(task, Policy())

    def window_s(self, job: Job, task: str | None = None) -> int:
        """The dedup window: the job's, else that of the task (which may be another one for who asks)."""
        own = job.wanted.dedup_s
        return self.policy(task or job.wanted.task).dedup_s if own is None else own

    def waiting(self, *places: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.place in (places or ("ready", "delayed", "parked"))]

    def used(self, ckey: str) -> int:
        runs = sum(job.lease is not None and job.wanted.ckey == ckey for job in self.jobs.values())
        return runs + self.slots_due.count(ckey)

    def run_of(self, fence: Fence) -> tuple[Job, Lease] | None:
        """The running job, if this is its whole fence (SPEC C3)."""
        job = self.jobs.get(fence.id)
        if job and job.lease and (job.run_count, job.lease.token) == (fence.run_count, fence.token):
            return job, job.lease
        return None

    # ---------------------------------------------------------------------------------------------------- enqueue

    def enqueue(self, inputs: Sequence[Input], on_terminal: str = "resubmit") -> list[tuple[Any, ...]]:
        """(answer, id, holder, differs) of each: those without key first, then by task and key, then as given."""
        ids = range(self.next_id, self.next_id + len(inputs))
        self.next_id += len(inputs)
        told: dict[int, tuple[Any, ...]] = {}
        for n, one in enumerate(inputs):
            if one.key is None and self.find(one.job_id) is None:
                told[n] = self._enqueue_one(ids[n], one, on_terminal)
        open_ = [n for n in range(len(inputs)) if n not in told]
        final = [n for n in open_ if self._look(inputs[n], on_terminal)[0] not in {"created", "resubmitted"}]
        told |= {n: self._enqueue_one(ids[n], inputs[n], on_terminal) for n in final}

        def turn(n: int) -> tuple[Any, ...]:
            one = inputs[n]
            return one.task, one.key is not None, one.key or one.job_id, n

        for n in sorted((n for n in open_ if n not in told), key=turn):
            told[n] = self._enqueue_one(ids[n], inputs[n], on_terminal)
        return [told[n] for n in range(len(inputs))]

    def _look(self, one: Input, on_terminal: str) -> tuple[str, Job | None]:
        known = self.find(one.job_id)
        holder = self.holder(one.task, one.key) if one.key is not None else None
        if known is not None:
            if known.end is None:
                return "exists", known
            if known.state == "in_doubt":
                return "in_doubt", known
            ended_at = known.end.run.ended_at
            assert ended_at is not None
            if known.state == "succeeded" and ended_at > self.now - self.window_s(known, one.task):
                return "deduplicated", known
            if on_terminal != "resubmit":
                return "exists", known
        if holder is not None:
            return "skipped", holder
        return ("created" if known is None else "resubmitted"), known

    def _enqueue_one(self, new_id: int, one: Input, on_terminal: str) -> tuple[Any, ...]:
        answer, job = self._look(one, on_terminal)
        if answer == "skipped":
            assert job is not None
            return answer, job.id, job.wanted.job_id, False
        if job is None:
            job = self.jobs[new_id] = Job(new_id, one, self.now)
        differs = (job.wanted.task, job.wanted.payload) != (one.task, one.payload)
        if answer in {"created", "resubmitted"}:
            if answer == "resubmitted":
                job.resubmits += 1
                job.generation += job.state == "succeeded"
                job.carry = None
            self._take(job, one)
        return answer, job.id, None, differs

    def _take(self, job: Job, one: Input) -> None:
        policy = self.policy(one.task)
        job.wanted = one
        job.version = policy.version if one.version is None else one.version
        job.queue = policy.queue if one.queue is None else one.queue
        job.priority = policy.priority if one.priority is None else one.priority
        job.asked_at = one.run_at if one.run_at is not None else self.now + (one.delay_s or 0)
        job.start_by, job.finish_by = one.start_by, one.finish_by
        self._queue_up(job)

    def _queue_up(self, job: Job) -> None:
        """From nowhere or from its end into the queue, with counters at 0; the last run goes into the history."""
        if job.end is not None and job.end.run.token is not None:
            job.runs.append(job.end.run)
        job.end = None
        job.attempts = job.crashes = job.snoozes = 0
        job.fair_key = self._fair_key(job)
        job.row_start_by, job.row_finish_by = job.start_by, job.finish_by
        job.run_at = job.asked_at
        job.place, job.reason = ("ready", None) if job.run_at <= self.now else ("delayed", "scheduled")

    def _fair_key(self, job: Job) -> str:
        return (job.wanted.tenant or "") if self.fair.get(job.queue) else ""

    # ------------------------------------------------------------------------------------------------------ claim

    def claim(
        self,
        token: int,
        lanes: Sequence[tuple[str, int, str]],
        ttl_s: int,
        only_one: bool = False,
    ) -> tuple[int, list[dict[str, Any]]]:
        """``lanes``: queue, quota, last tenant served. How many were moved aside, and the runs in their order."""
        chosen = [job for lane in lanes for job in self._choose(*lane)][: 1 if only_one else None]
        dead = [job for job in chosen if job.has_passed(self.now)]
        for job in dead:
            self._expire(job)
        take = [job for job in chosen if job not in dead]
        blocked = list[Job]()
        for ckey in {job.wanted.ckey for job in take if job.wanted.ckey is not None}:
            room = self.limits.setdefault(ckey, 1) - self.used(ckey)
            ranked = sorted((job for job in take if job.wanted.ckey == ckey), key=lambda job: job.order)
            blocked += ranked[max(room, 0) :]
        for job in blocked:
            job.place, job.reason = "parked", "key"
        runs = sorted((job for job in take if job not in blocked), key=lambda job: job.order)
        return len(dead) + len(blocked), [self._lease(job, token, ttl_s) for job in runs]

    def _choose(self, queue: str, quota: int, after: str) -> list[Job]:
        if self.paused.get(queue):
            return []
        ready = sorted((job for job in self.waiting("ready") if job.queue == queue), key=lambda job: job.order)
        if not self.fair.get(queue):
            return ready[:quota]
        tenants = sorted({job.fair_key for job in ready})
        served = ([name for name in tenants if name > after] + [name for name in tenants if name <= after])[:quota]
        return [job for name in served for job in [x for x in ready if x.fair_key == name][: quota // len(served)]]

    def _lease(self, job: Job, token: int, ttl_s: int) -> dict[str, Any]:
        policy = self.policy(job.wanted.task)
        checkpoint = job.carry.checkpoint if job.carry and job.run_count > 0 else None
        job.place, job.run_count, job.attempts = "running", job.run_count + 1, job.attempts + 1
        job.lease = Lease(
            token,
            self.now,
            ttl_s if policy.ttl_s is None else policy.ttl_s,
            policy,
            job.wanted.max_attempts or policy.max_attempts,
            max(policy.keep_ok_s, self.window_s(job)),
        )
        return {
            "id": job.id,
            "run_count": job.run_count,
            "attempts": job.attempts,
            "max_attempts": job.lease.max_attempts,
            "crashes": job.crashes,
            "snoozes": job.snoozes,
            "generation": job.generation,
            "ttl_s": job.lease.ttl_s,
            "checkpoint": checkpoint,
            "fair_key": job.fair_key or None,
        }

    # --------------------------------------------------------------------------------------------- what both need

    def _end_waiting(self, job: Job, state: str, code: str | None) -> None:
        policy = self.policy(job.wanted.task)
        keep_s = policy.keep_bad_s if state == "failed" else policy.keep_ok_s
        run = Run(job.run_count, None, None, None, self.now, None, None, state, True, code)
        job.end = End(state, run, self.now + keep_s)
        job.place, job.reason = "over", None

    def _expire(self, job: Job) -> None:
        late = job.row_finish_by is not None and job.row_finish_by <= self.now
        self._end_waiting(job, *(("failed", "DEADLINE") if late else ("skipped", "EXPIRED")))

    def _wake_keys(self, ckeys: Iterable[str]) -> None:
        """The best parked rows of each queue, as many as the gate has room for."""
        for ckey in set(ckeys) & set(self.limits):
            room = max(self.limits[ckey] - self.used(ckey), 0)
            parked = [job for job in self.waiting("parked") if job.wanted.ckey == ckey and job.reason == "key"]
            for queue in {job.queue for job in parked}:
                for job in sorted((x for x in parked if x.queue == queue), key=lambda x: x.order)[:room]:
                    job.place, job.reason = "ready", None
