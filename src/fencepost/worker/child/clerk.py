"""The clerk: the one thread of a worker process that speaks to the database. Claims, start marks, outcomes.

A blocked event loop or busy threads stop neither the claims of others nor outcomes already earned.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fencepost.domain.decide import decide
from fencepost.domain.job import ClaimedJob, Fence
from fencepost.domain.outcome import Outcome, Released, Settlement, Stopped, Unknown
from fencepost.domain.policy import RetryPolicy
from fencepost.errors import FencepostError, LeaseLostError
from fencepost.sql.catalog import Catalog
from fencepost.store import faults, jobs, workers
from fencepost.store.views import TaskRow
from fencepost.store.wire import Wire
from fencepost.tasks.registry import Registry
from fencepost.worker.board import Board, boot_ns
from fencepost.worker.child.attempt import exhausted
from fencepost.worker.child.held import LOST, Held
from fencepost.worker.child.meanwhile import Meanwhile
from fencepost.worker.child.openclaim import OpenClaim
from fencepost.worker.child.reports import Reports, Written
from fencepost.worker.child.room import OVERSTAYED_S, Room
from fencepost.worker.settings import WorkerSettings

log = logging.getLogger("fencepost.worker")

MAX_BYTES = 16 * 1024 * 1024
_SETTLE_MOST = 1000
_PROMOTE = 1000
_PROMOTE_EVERY_S = 0.2  # while one claim follows the other
_DEAD_MOST = 10_000
_BLOCKED_S = 0.3
_GLANCE_S = 0.1  # between two looks for progress
_QUICK_S = 0.1  # so long after its last job an idle worker polls at a fast pace
_FAST_S = 0.01
_RETRY_MOST_S = 1.0  # the longest pause between two tries while the database is away
_REGISTER_S = 5.0  # the shortest time between two looks whether the database still knows this process
_DEFAULT = RetryPolicy()


class Clerk(threading.Thread):
    """Works until `finish`. Nothing that a call raises ends it, but an error that no retry can mend ends the worker."""

    def __init__(
        self,
        dsn: str,
        sql: Catalog,
        settings: WorkerSettings,
        *,
        registry: Registry,
        reports: Reports,
        board: Board,
        token: int,
        loop_age: Callable[[], float],
        failed: Callable[[FencepostError], None],
    ) -> None:
        super().__init__(name="fencepost-clerk", daemon=True)
        self._sql, self._settings = sql, settings
        self._registry, self._reports, self._board, self._token = registry, reports, board, token
        self._loop_age, self._failed = loop_age, failed
        self._usual_ms = settings.beat_ms
        self._wire = Wire(dsn, deadline=settings.call_deadline, name="worker")
        self._later = Meanwhile(self._wire)
        self._saver = Wire(dsn, deadline=settings.call_deadline, name="worker checkpoints")
        self._saving = threading.Lock()
        self._outbox: deque[Written] = deque()
        self._again: list[Written] = []
        self._busy = False
        self._wake = threading.Event()
        self._rng = random.Random()  # noqa: S311 - jitter
        self._after: dict[str, str] = {}
        self._last_work = 0.0
        self._promoted = 0.0
        self._full = False
        """The last claim brought all that it asked for."""
        self._progress_at = 0.0
        self._troubled = False
        self._failures = 0
        self._ask_mine = False
        self._register_at = 0.0
        self._open_claim = OpenClaim(settings.heartbeat_ttl)
        self._repeated: list[Fence] = []
        self._dead: dict[tuple[int, int], None] = {}
        self._all_async = all(task.policy.executor == "async" for task in registry)
        self.claiming = True
        self.in_claim = False
        """A claim is under way, or what it brought is being taken in: not empty yet."""
        self.pulse_good = True
        self.ending = False
        self.idle_since: float | None = None
        self.room: Room

    # ----------------------------------------------------------------------------------------------- from other threads

    def settle(self, held: Held, outcome: Outcome, stats: str | None) -> None:
        """Write how a run ended. From any thread; soon."""
        c = held.claimed
        policy = held.task.policy.retry if held.task is not None else _DEFAULT
        settlement = decide(c, outcome, policy, datetime.now(UTC), self._rng, stats)
        self._outbox.append(Written(held, settlement))
        if not self._wake.is_set():
            self._wake.set()

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def save_checkpoint(self, fence: Fence, text: str) -> None:
        """Durable when it returns. Raises LeaseLostError, OutageError or UsageError."""
        try:
            with self._saving:
                written = self._saver.run(jobs.checkpoint(self._sql, fence, text))
        except Exception as error:
            raise faults.translate(error) from error
        if not written:
            raise LeaseLostError("another run owns this job now; the checkpoint was not written")

    # --------------------------------------------------------------------------------------------------------- the thread

    def run(self) -> None:
        """Settle, promote, claim, wait."""
        try:
            self._work()
        except BaseException as error:  # a process without a clerk lives on and does nothing: worse than one that ends
            log.exception("the clerk stumbled and fell")
            self._failed(FencepostError(f"the worker cannot go on: {type(error).__name__}"))

    def _work(self) -> None:
        while not (self.ending and self._later.is_idle and not self._outbox and not self._again):
            pause = 0.05
            try:
                if time.monotonic() >= self._register_at:
                    self._register()
                if self._ask_mine or self._open_claim.wants_a_look():
                    self._later.catch_up()
                    self._release_unknown()
                pause = self._turn()
                if not self._outbox:
                    self._later.catch_up()
                if self.room.waits:
                    pause = min(pause, OVERSTAYED_S)
                self._calm()
            except Exception as error:  # noqa: BLE001 - judged by kind
                if self._give_up_on(error):
                    return
                self._failures += 1
                time.sleep(min(_RETRY_MOST_S, 0.1 * 2 ** min(self._failures, 8)) * self._rng.uniform(0.5, 1.0))
                continue
            if not self._outbox:
                self._wake.wait(pause)
            self._wake.clear()
        self._later.catch_up()
        self._unregister()

    def _turn(self) -> float:
        """One round; the seconds until the next, unless something wakes us."""
        self._release_repeated()  # before an outcome of the run that had this fence first
        self._write()
        self._mark_starts()
        self._send_progress()
        if self.ending or not self.claiming or not self.pulse_good:
            return 0.05
        self._hand_back(self.room.overstayed(), "the bodies before them take longer than expected")
        blocked = self._loop_age() > _BLOCKED_S
        if blocked:
            self._hand_back(self.room.take_back(blocked_loop=True), "a handler blocks the event loop")
            if self._all_async:
                return 0.05
        quotas = self.room.quotas(blocked_loop=blocked)
        if not quotas:
            return 0.05 if blocked else self._settings.poll_interval
        if self._full and time.monotonic() - self._promoted >= _PROMOTE_EVERY_S:
            self._promote()
        claimed = self._claim(quotas)
        if claimed.jobs:
            self._last_work = time.monotonic()
            self.idle_since = None
        self._full = len(claimed.jobs) >= sum(quotas.values())
        if self._full or self._promote():
            return 0.0
        if claimed.jobs:
            return self._pause(busy=True)
        if claimed.aside:
            return 0.02  # somebody holds the gate, or rows were moved: not empty, so look again soon, but do not spin
        if self.room.is_empty and self.idle_since is None:
            self.idle_since = time.monotonic()
        return self._pause(busy=False)

    def _claim(self, quotas: dict[str, int]) -> jobs.Claimed:
        """What it brings is taken in while the next call is under way."""
        sent = boot_ns()
        self.in_claim = True
        self._open_claim.sent()
        try:
            claimed = self._later.ask(
                jobs.claim(
                    self._sql,
                    self._token,
                    quotas,
                    max_bytes=MAX_BYTES,
                    ttl_s=self._settings.heartbeat_ttl,
                    after=self._after,
                )
            )
        except BaseException:
            self.in_claim = False
            raise
        self._open_claim.answered()
        fresh = [job for job in claimed.jobs if not self._is_repeated(job)]
        self._later.put_off(lambda: self._take_in(fresh, sent))
        self._release_repeated()
        for bad in claimed.bad:
            failed = Settlement(act="fail", code="UNSTORABLE", error=bad.reason)
            self._wire.run(jobs.settle(self._sql, [(bad.fence, failed)]))
        return claimed

    def _promote(self) -> int:
        """Make ready what has become due, whether there is a leader or not: after a claim that could have had more.

        So the jobs that are ready wait for nothing else, and while one full claim follows the other it is done now and then.
        """
        self._promoted = time.monotonic()
        return self._later.ask(jobs.promote(self._sql, _PROMOTE))

    def _pause(self, *, busy: bool) -> float:
        """At most the poll interval, at least half of it; at a fast pace just after work."""
        if not busy and time.monotonic() - self._last_work < _QUICK_S:
            return _FAST_S
        return self._settings.poll_interval * self._rng.uniform(0.5, 1.0)

    def _take_in(self, claimed: list[ClaimedJob], sent: int) -> None:
        try:
            self._take(claimed, sent)
        finally:
            self.in_claim = False

    def _take(self, claimed: list[ClaimedJob], sent: int) -> None:
        known: list[Held] = []
        versions = self._registry.versions()
        get, publish, save, token = self._registry.get, self._board.publish, self.save_checkpoint, self._token
        now, now_ns = time.monotonic(), boot_ns()
        for job in claimed:
            if job.fair_key is not None:
                self._after[job.queue] = job.fair_key
            task = get(job.task)
            beat_ms = 0 if task is not None and task.policy.lease_s is not None else self._beat_ms(job)
            at = publish(job.id, job.run_count, beat_ms, now_ns)
            held = Held(job, token, at, sent, task, now, beat_ms / 1000, save)
            if task is None or job.version > versions[job.task]:
                self.settle(held, Unknown(), None)
            elif job.attempts > job.max_attempts:
                self.settle(held, exhausted(job), None)
            else:
                known.append(held)
        self.room.add(known)
        if self.room.draining:
            self.hand_back_waiting()

    def _beat_ms(self, job: ClaimedJob) -> int:
        """The worker's interval, or oftener where the lease is shorter than it allows."""
        return min(self._usual_ms, max(1, int(job.ttl_s * 1000 / 3)))

    def _mark_starts(self) -> None:
        """Bodies that must not run twice begin only after their start is durable (SPEC W12)."""
        runs = self.room.to_mark()
        if not runs:
            return
        try:
            answers = self._wire.run(jobs.start(self._sql, self._token, [held.fence for held in runs]))
        except BaseException:
            self.room.mark_later(runs)
            raise
        for held in runs:
            answer = answers.get(held.fence)
            if answer == "ok":
                self.room.marked(held)
                continue
            self.room.not_marked(held)
            if answer == "cancel":
                self.settle(held, Stopped(), None)
            else:
                self._drop(held)

    # ---------------------------------------------------------------------------------------------------------- outcomes

    def _write(self) -> None:
        """The outcomes that wait, up to a bound: while they are on their way others come together for the next call."""
        if self._busy:
            self._busy = False
            time.sleep(0.05)
        batch = self._again[:_SETTLE_MOST]
        del self._again[:_SETTLE_MOST]
        while self._outbox and len(batch) < _SETTLE_MOST:
            batch.append(self._outbox.popleft())
        if not batch:
            self._later.catch_up()
            return
        try:
            answers = self._later.ask(jobs.settle(self._sql, [(w.held.fence, w.settlement) for w in batch]))
        except BaseException:
            self._again = batch + self._again
            raise
        self._last_work = time.monotonic()
        self._later.put_off(lambda: self._take_answers(batch, answers))

    def _take_answers(self, batch: list[Written], answers: dict[Fence, jobs.Settled]) -> None:
        over: list[Held] = []
        busy: list[Written] = []
        for written in batch:
            answered = self._is_answered(written, answers.get(written.held.fence))
            if answered:
                over.append(written.held)
            else:
                busy.append(written)
        self._drop(*over)
        if busy:
            self._again = busy + self._again
            self._busy = True

    def _is_answered(self, written: Written, settled: jobs.Settled | None) -> bool:
        held = written.held
        answer = settled.answer if settled is not None else "lost"
        if answer == "busy":
            return False
        if answer == "lost":
            self._bury(held)
            self._reports.came_too_late(written)
        elif settled is not None:
            self._reports.ended(written, settled.state or "")
        return True

    def _drop(self, *runs: Held) -> None:
        for held in runs:
            self._board.clear(held.at)
        self.room.forget(runs)

    def _hand_back(self, runs: list[Held], why: str) -> None:
        if runs:
            log.info("%d jobs that had not started go back to their queue: %s", len(runs), why)
        for held in runs:
            self.settle(held, Released(why), None)

    def hand_back_waiting(self) -> None:
        """Nothing begins any more; give back what has not."""
        self._hand_back(self.room.stop(), "the worker stops")

    def _send_progress(self) -> None:
        now = time.monotonic()
        if now < self._progress_at:
            return
        with_news = [h for h in self.room.everything() if h.progress is not None]
        self._progress_at = now + (min(1.0, self._settings.heartbeat_interval) if with_news else _GLANCE_S)
        if not with_news:
            return
        texts = []
        for held in with_news:
            text, held.progress = held.progress, None
            texts.append(text)
        sent = boot_ns()
        answers = self._wire.run(jobs.beat(self._sql, [h.fence for h in with_news], progress=texts))
        for held in with_news:
            answer = answers.get(held.fence)
            if answer in ("ok", "cancel"):
                held.beaten_ns = max(held.beaten_ns, sent)
            elif answer == "lost":
                held.tell(LOST)

    # ------------------------------------------------------------------------------------------------------------ trouble

    def _calm(self) -> None:
        self._failures = 0
        if self._troubled:
            self._troubled = False
            log.info("the database answers again")

    def _give_up_on(self, error: Exception) -> bool:
        """Log an episode once; True for what no retry can mend."""
        self._wire.close()
        if not faults.is_transient(error):
            meaning = faults.translate(error)
            log.error("the worker cannot go on: %s", meaning)
            self._failed(meaning)
            return True
        self._ask_mine = True
        self._register_at = 0.0
        self._open_claim.broke()
        self.pulse_good = False  # no claim until a beat has passed (SPEC W4)
        self._board.ask_for_beat()
        if not self._troubled:
            self._troubled = True
            log.warning("the database cannot be reached, trying again: %s", faults.explain(error))
        return False

    def _is_repeated(self, job: ClaimedJob) -> bool:
        """Whether a failover has forgotten a claim of ours, and this one has its fence: two bodies must not share one.

        The first may even be another job's, if the sequence of ids fell back as well; it may be over, but for a thread that
        heeded nothing.
        """
        run = job.id, job.run_count
        if run not in self.room.held and run not in self._dead:
            return False
        first = self.room.held.get(run)
        if first is not None:
            first.tell(LOST)
        self._repeated.append(Fence(job.id, job.run_count, self._token))
        log.warning(
            "job %s was claimed as run %d, which this process has had before: the database has forgotten it; the repeated "
            "run goes back to the queue",
            job.job_id,
            job.run_count,
        )
        return True

    def _bury(self, held: Held) -> None:
        """Its lease is lost for good. Remembered, within bounds: should its fence come again, it is not this run's."""
        self._dead[held.fence.id, held.fence.run_count] = None
        if len(self._dead) > _DEAD_MOST:
            del self._dead[next(iter(self._dead))]

    def _release_repeated(self) -> None:
        if self._repeated:
            self._wire.run(jobs.settle(self._sql, [(fence, Settlement(act="release")) for fence in self._repeated]))
            self._repeated.clear()

    def _release_unknown(self) -> None:
        """After a broken connection: what the database believes us to hold, and what we believe, made one.

        A claim whose answer was lost left runs that nobody runs: they go back (review A11), also when it comes through
        only later. A run that the database does not know was taken away, or its claim was forgotten by a failover: its
        body is told; a lease with its fence that comes later is a repetition.
        """
        self._open_claim.looked()
        mine = self._wire.run(jobs.mine(self._sql, self._token))
        if mine is None:
            return  # a standby: whatever we do next fails, and we ask again
        on_their_way = {(w.held.fence.id, w.held.fence.run_count) for w in (*self._again, *self._outbox.copy())}
        known = {(fence.id, fence.run_count) for fence in mine} | on_their_way  # perhaps written
        for held in self.room.everything():
            if (held.fence.id, held.fence.run_count) not in known and held.tell(LOST):
                self._bury(held)
                log.warning("the lease of job %s (run %d) is lost", held.claimed.job_id, held.fence.run_count)
        ours = on_their_way | self.room.held.keys()
        unknown = [f for f in mine if (f.id, f.run_count) not in ours or (f.id, f.run_count) in self._dead]
        if unknown:
            self._wire.run(jobs.settle(self._sql, [(fence, Settlement(act="release")) for fence in unknown]))
        self._ask_mine = False

    def _register(self) -> None:
        """Make the database know this process and its tasks: at the start, after trouble, and once per lease time.

        A failover may have forgotten both, and the leader forgets a machine that slept for hours. Tasks are published only
        by a process that is not known: an old release that is being replaced does not take back what a new one said.
        """
        if not self._wire.run(workers.is_registered(self._sql, self._token)):
            self._wire.run(workers.publish_tasks(self._sql, [_task_row(task.policy) for task in self._registry]))
            facts = (socket.gethostname(), os.getpid(), self._registry.versions(), dict(self._settings.queues))
            self._wire.run(workers.register(self._sql, self._token, *facts))
        self._register_at = time.monotonic() + max(_REGISTER_S, self._settings.heartbeat_ttl)

    def _unregister(self) -> None:
        try:
            self._wire.run(workers.unregister(self._sql, self._token))
        except Exception:  # noqa: BLE001 - we are leaving; the leader forgets us in time
            log.debug("could not unregister")
        self._wire.close()
        self._saver.close()


def _task_row(policy: Any) -> TaskRow:
    return TaskRow(
        name=policy.name,
        version=policy.version,
        queue=policy.queue,
        priority=policy.priority,
        max_attempts=policy.max_attempts,
        max_crashes=policy.max_crashes,
        on_lost="requeue" if policy.on_lost == "retry" else policy.on_lost,
        at_most_once=policy.at_most_once,
        lease_only=policy.lease_s is not None,
        ttl_s=policy.lease_ttl_s,
        dedup_s=policy.dedup_s,
        keep_ok_s=policy.keep_succeeded_s,
        keep_bad_s=policy.keep_failed_s,
    )
