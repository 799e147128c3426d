"""What the storage must do, in plain Python: one thread, whole seconds, no database, nothing of the library.

Written from the contract and from what the functions say of themselves. A method is one function of the schema and gives
what that function answers. Simple instead of quick: it walks through all jobs wherever it looks for some. Its halves are
`ways_in` (enqueue, claim) and `ways_out` (beat, settle, rescue); here is what operators and the leader do.
"""

from __future__ import annotations

from collections.abc import Collection

from model.things import DAY, Job, Leader, Policy
from model.ways_out import WaysOut


class Model(WaysOut):
    """The whole of it."""

    # -------------------------------------------------------------------------------------------------- operators

    def cancel(self, job_id: str, actor: str) -> str:
        job = self.find(job_id)
        if job is None:
            return "unknown"
        answer = "finished"
        if job.lease is not None:
            answer = "requested"
            job.lease.cancel_at = self.now if job.lease.cancel_at is None else job.lease.cancel_at
        elif job.end is None:
            answer = "cancelled"
            self._end_waiting(job, "cancelled", None)
        self.audit.append((job.id, actor, "cancel", None, answer))
        return answer

    def resubmit(self, job_id: str, actor: str) -> tuple[str, str | None]:
        job = self.find(job_id)
        if job is None:
            return "unknown", None
        if job.end is None or job.state == "in_doubt":
            return ("active" if job.end is None else "in_doubt"), None
        holder = self.holder(job.wanted.task, job.wanted.key) if job.wanted.key is not None else None
        if holder is not None:
            return "skipped", holder.wanted.job_id
        self.audit.append((job.id, actor, "resubmit", job.state, "queued"))
        job.manual += 1
        self._run_again(job)
        return "resubmitted", None

    def _run_again(self, job: Job) -> None:
        job.asked_at, job.start_by, job.finish_by = self.now, None, None
        self._queue_up(job)

    def resolve(self, job_id: str, verdict: str, actor: str, result: int | None) -> str:
        job = self.find(job_id)
        if job is None or job.end is None or job.state != "in_doubt":
            return "unknown" if job is None else "not_in_doubt"
        if verdict == "queued":
            self._run_again(job)
        else:
            job.end.state, job.end.run.ended_at = verdict, self.now
            job.end.purge_at = self.now + self._keep_s(job)
            job.end.run.how = "stale" if job.end.stale else verdict
            job.end.result = job.end.result if result is None else result
        self.audit.append((job.id, actor, "resolve", "in_doubt", verdict))
        return "resolved"

    def discard(self, job_id: str, actor: str) -> str:
        job = self.find(job_id)
        if job is None or job.end is None or job.state == "in_doubt":
            return "unknown" if job is None else "active" if job.end is None else "in_doubt"
        del self.jobs[job.id]
        self.audit.append((job.id, actor, "discard", job.state, None))
        return "discarded"

    def pause(self, queue: str, paused: bool, actor: str) -> str:
        if self.paused.get(queue, False) == paused:
            return "unchanged"
        self.paused[queue] = paused
        self.audit.append((None, actor, "pause" if paused else "resume", None, "paused" if paused else "open"))
        return "paused" if paused else "resumed"

    def make_fair(self, queue: str, fair: bool) -> None:
        self.fair[queue] = fair
        for job in self.waiting():
            job.fair_key = self._fair_key(job)

    def limit(self, ckey: str, lim: int) -> None:
        self.limits[ckey] = lim
        self._wake_keys([ckey])

    # ----------------------------------------------------------------------------------------------------- duties

    def promote(self, limit: int) -> int:
        due = sorted((job for job in self.waiting("delayed") if job.run_at <= self.now), key=lambda x: (x.run_at, x.id))
        for job in due[:limit]:
            job.place, job.reason = "ready", None
        back, self.slots_due = self.slots_due[:limit], self.slots_due[limit:]
        self._wake_keys(back)
        return len(due[:limit]) + len(back)

    def expire(self) -> int:
        passed = [job for job in self.waiting() if job.has_passed(self.now)]
        for job in passed:
            self._expire(job)
        return len(passed)

    def purge(self) -> int:
        over = [
            job
            for job in self.jobs.values()
            if job.end and job.end.purge_at is not None and job.end.purge_at <= self.now
        ]
        for job in over:
            assert job.end is not None
            assert job.end.run.ended_at is not None
            self.daily[job.end.run.ended_at // DAY, job.wanted.task, job.state, job.end.run.code or ""] += 1
            del self.jobs[job.id]
        return len(over)

    def sweep_gates(self, limit: int) -> int:
        free = [ckey for ckey in sorted(self.limits) if self.limits[ckey] == 1 and self.used(ckey) == 0][:limit]
        blocked = {job.wanted.ckey for job in self.waiting("parked") if job.reason == "key"}
        for ckey in (gone := [ckey for ckey in free if ckey not in blocked]):
            del self.limits[ckey]
        return len(gone)

    def recount(self, ckeys: Collection[str]) -> int:
        for ckey in ckeys:
            self.limits.setdefault(ckey, 1)
        self._wake_keys(ckeys)
        return 0

    def register(self, token: int, tasks: dict[str, int]) -> None:
        self.workers[token] = self.now, tasks

    def unregister(self, token: int) -> None:
        self.workers.pop(token, None)

    def publish(self, task: str, policy: Policy) -> int:
        known = self.tasks.get(task)
        if known is not None and (known == policy or known.version > policy.version):
            return 0
        self.tasks[task] = policy
        return 1

    def wake_known(self) -> int:
        def is_known(job: Job) -> bool:
            return any(
                abs(beat - self.now) <= 60 and tasks.get(job.wanted.task, -1) >= job.version
                for beat, tasks in self.workers.values()
            )

        woken = [job for job in self.waiting("parked") if job.reason == "unknown" and is_known(job)]
        for job in woken:
            job.place, job.reason = "ready", None
        return len(woken)

    def _keep_s(self, job: Job) -> int:
        policy = self.policy(job.wanted.task)
        return policy.keep_bad_s if job.state == "failed" else max(policy.keep_ok_s, self.window_s(job))

    def retention(self, task: str) -> int:
        """Write the task's present retention to what has ended; how many changed."""
        policy, changed = self.tasks.get(task), 0
        for job in self.jobs.values() if policy is not None else ():
            if job.wanted.task == task and job.end is not None and job.state != "in_doubt":
                ended_at = job.end.run.ended_at
                assert ended_at is not None
                purge_at = min(ended_at, self.now) + self._keep_s(job)
                changed += purge_at != job.end.purge_at
                job.end.purge_at = purge_at
        return changed

    def lead(self, name: str, token: int, lease_s: int, good_at: int | None) -> tuple[bool, int, int | None]:
        """Whether it leads, the epoch, and what was last found good: the predecessor's word, if it has just taken over."""
        role = self.leaders.setdefault(name, Leader(token, self.now, self.now, self.now + lease_s))
        is_mine, is_over = role.token == token, role.expires_at <= self.now
        if not is_mine and not is_over:
            return False, role.epoch, role.good_at
        known = role.good_at
        if not is_mine or is_over:
            role.token, role.epoch, role.taken_at = token, role.epoch + 1, self.now
        else:
            role.good_at = role.good_at if good_at is None else good_at
        role.renewed_at, role.expires_at = self.now, self.now + lease_s
        return True, role.epoch, known

    def resign(self, name: str, token: int) -> bool:
        role = self.leaders.get(name)
        if role is None or role.token != token:
            return False
        role.expires_at = self.now
        return True
