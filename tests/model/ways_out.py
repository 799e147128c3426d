"""The model's way out: what a run may say while it goes on, and how it ends."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence

from model.things import ENDS, LONGEST, UNSTORABLE, Carry, End, Fence, Job, Lease, Run, Write
from model.ways_in import WaysIn

Answer = dict[int, tuple[str, str | None]]
"""Per job: the answer, and the state that it became."""

STALE_TEXT = "no beat for longer than the lease"


def single(value: float) -> float:
    """As a ``real`` of PostgreSQL holds it."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


class WaysOut(WaysIn):
    """Beats, marks, checkpoints, the one road out of a run, and the two rescues."""

    # -------------------------------------------------------------------------------------------------- in the run

    def beat(
        self, fences: Sequence[Fence], started: bool, progress: int | None, workers: Collection[int]
    ) -> list[tuple[int, str]]:
        answers = list[tuple[int, str]]()
        for fence in fences:
            found = self.run_of(fence)
            if found is None:
                answers.append((fence.id, "lost"))
                continue
            lease = found[1]
            gap = single(self.now - min(lease.last_sign, self.now))
            lease.max_gap = gap if lease.max_gap is None else max(lease.max_gap, gap)
            lease.heartbeat_at = self.now
            if started and lease.started_at is None:
                lease.started_at = self.now
            lease.progress = lease.progress if progress is None else progress
            answers.append((fence.id, "ok" if lease.cancel_at is None else "cancel"))
        for token in {fence.token for fence in fences} | set(workers):
            if token in self.workers:
                self.workers[token] = self.now, self.workers[token][1]
        return sorted(answers)

    def start(self, fences: Sequence[Fence]) -> list[tuple[int, str]]:
        answers = list[tuple[int, str]]()
        for fence in fences:
            found = self.run_of(fence)
            if found and found[1].cancel_at is None and found[1].started_at is None:
                found[1].started_at = self.now
            answers.append(
                (fence.id, "lost" if found is None else "cancel" if found[1].cancel_at is not None else "ok")
            )
        return sorted(answers)

    def checkpoint(self, fence: Fence, data: int) -> bool:
        found = self.run_of(fence)
        if found:
            found[0].carried().checkpoint = data
        return found is not None

    # ------------------------------------------------------------------------------------------------------ settle

    def settle(self, writes: Sequence[Write], defer: bool = False) -> Answer:
        """Ends before roads back; a result that cannot be stored splits the batch, and then slots are deferred."""
        mine = [write for write in writes if self.run_of(write.fence)]
        split = any(write.act in ENDS and write.result == UNSTORABLE for write in mine)
        told: Answer = {}
        freed = list[str]()
        for write in sorted(mine, key=lambda write: (not split and write.act not in ENDS, write.fence.id)):
            found = self.run_of(write.fence)
            assert found is not None
            if found[0].wanted.ckey is not None:
                freed.append(found[0].wanted.ckey)
            told[write.fence.id] = "accepted", (self._finish if write.act in ENDS else self._go_back)(*found, write)
        if defer or split:
            self.slots_due += freed
        else:
            self._wake_keys(freed)
        late = [write.fence for write in writes if write.fence.id not in told]
        for fence in late:
            told[fence.id] = self._late(fence)
        return told

    def _finish(self, job: Job, lease: Lease, write: Write) -> str:
        state, code, error, result = ENDS[write.act], write.code, write.error, write.result
        if result == UNSTORABLE:
            state = "failed" if state == "succeeded" else state
            code, error, result = "UNSTORABLE", None, None
        self._end_run(job, lease, state, code, error)
        assert job.end is not None
        job.end.result = None if result is None else int(result)
        return state

    def _go_back(self, job: Job, lease: Lease, write: Write) -> str:
        act = write.act
        if act in {"release", "park"} and lease.started_at is not None and lease.must_not_run_twice:
            act = "lost"
        elif act == "snooze" and job.snoozes >= 100:
            act = "retry"
        if act == "lost":
            delay = 0 if job.crashes == 0 else min(2 ** min(job.crashes, 9), 300)
        else:
            delay = max(0, min(write.delay, LONGEST))
        crashes = job.crashes + (act == "lost")
        spent = act not in {"release", "snooze", "park"}
        next_at = self.now + delay
        code = "STALE" if act == "lost" else (write.code or "TIMEOUT") if act == "timeout" else write.code
        state, end_code = self._verdict(job, lease, act, crashes, spent, next_at, code)
        job.crashes = crashes
        if state is not None:
            self._end_run(job, lease, state, end_code, write.error, stale=act == "lost")
            return state
        how = "stale" if act == "lost" else act
        job.runs.append(self._record(job, lease, how, spent, code, write.error))
        if spent or write.error is not None or lease.progress is not None:
            self._carry_on(
                job.carried(), code if spent or write.error is not None else None, write.error, lease.progress
            )
        job.attempts -= not spent
        job.snoozes += act == "snooze"
        self._requeue(job, lease, act, delay, spent)
        return "queued"

    def _verdict(
        self, job: Job, lease: Lease, act: str, crashes: int, spent: bool, next_at: int, code: str | None
    ) -> tuple[str | None, str | None]:
        """The end that policy, cancel request and deadline make of a road back; None: it is one (SPEC C6, R4, R6, W8, W12)."""
        policy = lease.policy
        if policy.at_most_once and act in {"lost", "timeout"}:
            return "in_doubt", code
        if policy.at_most_once and act == "retry":
            return "failed", code
        if act == "lost" and policy.on_lost == "in_doubt":
            return "in_doubt", code
        if lease.cancel_at is not None:
            return "cancelled", code
        if act == "lost" and policy.on_lost == "fail":
            return "failed", code
        if act == "lost" and crashes >= policy.max_crashes:
            return "failed", "CRASH_LOOP"
        if spent and job.attempts >= lease.max_attempts:
            return "failed", code
        if job.row_finish_by is not None and job.row_finish_by <= next_at:
            return "failed", "DEADLINE"
        return None, None

    def _requeue(self, job: Job, lease: Lease, act: str, delay: int, spent: bool) -> None:
        job.lease = None
        job.fair_key = self._fair_key(job)
        if act == "park":
            job.place, job.reason = "parked", "unknown"
        elif delay == 0:
            job.place, job.reason = "ready", None
            job.row_start_by = job.row_start_by if not spent and lease.started_at is None else None
        else:
            job.place, job.run_at, job.row_start_by = "delayed", self.now + delay, None
            job.reason = {"lost": "crash", "snooze": "snooze", "release": "snooze"}.get(act, "retry")

    @staticmethod
    def _carry_on(carry: Carry, code: str | None, error: str | None, progress: int | None) -> None:
        """The last error is of the last run that had one."""
        if code is not None or error is not None:
            carry.error = error
        carry.code = carry.code if code is None else code
        carry.progress = carry.progress if progress is None else progress

    def _record(self, job: Job, lease: Lease, how: str, spent: bool | None, code: str | None, error: str | None) -> Run:
        return Run(
            job.run_count, lease.token, lease.claimed_at, lease.started_at, self.now, lease.heartbeat_at, lease.max_gap,
            how, spent, code, error,
        )  # fmt: skip

    def _end_run(
        self, job: Job, lease: Lease, state: str, code: str | None, error: str | None, stale: bool = False
    ) -> None:
        keep_s = {"failed": lease.policy.keep_bad_s, "in_doubt": None}.get(state, lease.keep_ok_s)
        run = self._record(job, lease, "stale" if stale else state, True, code, error)
        job.end = End(state, run, None if keep_s is None else self.now + keep_s, stale)
        job.place, job.reason, job.lease = "over", None, None

    def _late(self, fence: Fence) -> tuple[str, str | None]:
        """``already``: this very run wrote it before. ``lost``: it was taken away, which is counted on its record."""
        job = self.jobs.get(fence.id)
        if job is None:
            return "lost", None
        if job.end and (job.end.run.run_count, job.end.run.token) == (fence.run_count, fence.token):
            job.end.run.refused += job.end.stale
            return ("lost" if job.end.stale else "already"), job.end.state
        for run in job.runs:
            if (run.run_count, run.token) == (fence.run_count, fence.token):
                taken_away = run.how in {"stale", "timeout"}
                run.refused += taken_away
                return ("lost", None) if taken_away else ("already", "queued")
        return "lost", None

    # ----------------------------------------------------------------------------------------------------- rescue

    def rescue(self, limit: int, grace_s: int) -> Answer:
        def is_stale(job: Job) -> bool:
            return job.lease is not None and job.lease.last_sign < self.now - job.lease.ttl_s - grace_s

        writes = list[Write]()
        for job in [self.jobs[id_] for id_ in sorted(self.jobs) if is_stale(self.jobs[id_])][:limit]:
            assert job.lease is not None
            never_began = job.lease.started_at is None and job.lease.must_not_run_twice
            fence = Fence(job.id, job.run_count, job.lease.token)
            writes.append(Write(fence, "release" if never_began else "lost", error=STALE_TEXT))
        return self.settle(writes, defer=True)

    def rescue_process(
        self, token: int, started: Collection[int], overdue: Collection[int], interrupted: Collection[int]
    ) -> Answer:
        writes = list[Write]()
        for job in self.jobs.values():
            if job.lease is None or job.lease.token != token:
                continue
            if job.lease.started_at is None and job.id in {*started, *overdue, *interrupted}:
                job.lease.started_at = self.now
            began = job.lease.started_at is not None
            act, text = "release", "its process was ended" if began else None
            if job.id in overdue:
                act, text = "timeout", "killed at its maximum duration"
            elif job.id not in interrupted and began:
                act, text = "lost", "the worker process died"
            writes.append(Write(Fence(job.id, job.run_count, token), act, error=text))
        return self.settle(writes, defer=True)
