"""Tales in which one promise is broken, each with the rule and the job that must be named."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torture.sound import a_job_that_ran_and_was_forgotten_before_its_call_was_answered, rescued
from torture.tales import CHILD, OTHER, SUPERVISOR, TTL, Tale, Told


class Broken(NamedTuple):
    """A tale, and what must be said about it; ``also``: other jobs that are named with it."""

    rule: str
    job: str
    says: str
    tell: Callable[[Tale], None]
    also: tuple[str, ...] = ()


BROKEN: list[Broken] = []


def breaks(
    rule: str, says: str, job: str = "bad", also: tuple[str, ...] = ()
) -> Callable[[Callable[[Tale], None]], Callable[[Tale], None]]:
    def add(tell: Callable[[Tale], None]) -> Callable[[Tale], None]:
        BROKEN.append(Broken(rule, job, says, tell, also))
        return tell

    return add


def claimed(tale: Tale, key: str | None = None) -> Told:
    job = tale.enqueue("bad", key)
    tale.claim(job)
    return job


def begun(tale: Tale, key: str | None = None) -> Told:
    job = claimed(tale, key)
    tale.start(job)
    return job


def over(tale: Tale) -> Told:
    job = begun(tale)
    tale.effect(job)
    tale.body("end", job, how="returned")
    return job


# ---- P1


@breaks("P1", "acknowledged, and lost")
def no_row_at_all(tale: Tale) -> None:
    tale.enqueue("bad", insert=False)
    tale.finish()
    tale.forget("jobs.jsonl", job_id="bad")


@breaks("P1", "still queued when everything had ended")
def never_run(tale: Tale) -> None:
    tale.enqueue("bad")


@breaks("P1", "still running when everything had ended")
def never_ended(tale: Tale) -> None:
    job = begun(tale)
    tale.record(job, "running", True)


@breaks("P1", "left ready and arrived nowhere")
def fallen_out_of_the_queue(tale: Tale) -> None:
    job = tale.enqueue("bad")
    tale.begin()
    tale.move(job, "ready", None)
    job.state = "cancelled"


@breaks("P1", "left nothing and arrived nowhere")
def identity_without_a_place(tale: Tale) -> None:
    job = tale.enqueue("bad", insert=False)
    tale.begin()
    tale.log("job", "insert", job.id, job_id="bad")
    job.state = "cancelled"


@breaks("P1", "left parked, where it was not")
def taken_from_where_it_was_not(tale: Tale) -> None:
    job = tale.enqueue("bad")
    tale.begin()
    tale.log("parked", "delete", job.id, **tale.row(job, "parked"))
    tale.run_well(job)


@breaks("P1", "failed in the table and succeeded by the log")
def two_ends_told(tale: Tale) -> None:
    tale.whole("bad")
    tale.final("bad")["state"] = "failed"


@breaks("P1", "ran, and there is no such job")
def ran_and_vanished(tale: Tale) -> None:
    tale.fate(tale.ask("bad"), "unknown")
    tale.lines["worker-101.jsonl"].append(
        {"t": tale.t, "ev": "start", "pid": CHILD, "job_id": "bad", "id": 99, "run": 1}
    )


# ---- P2


@breaks("P2", "succeeded was written by run 1 (token 22), and run 1 (token 11) held the lease")
def outcome_of_another_process(tale: Tale) -> None:
    job = over(tale)
    tale.settle(job)
    tale.lines["database.jsonl"][-1]["row"]["token"] = 22


@breaks("P2", "failed was written by run 1 (token 11), and run 2 (token 22) held the lease")
def outcome_of_an_old_run(tale: Tale) -> None:
    job = begun(tale)
    tale.fault("kill", f"child {CHILD}", ["bad"])
    tale.put_back(job, "stale")
    tale.claim(job, OTHER)
    tale.start(job)
    tale.settle(job, "failed")
    tale.lines["database.jsonl"][-1]["row"].update(run_count=1, token=11)
    tale.final("bad")["run_count"] = 2


@breaks("P2", "succeeded was written by run 1 (token 11), and nobody held the lease")
def outcome_after_a_hand_back(tale: Tale) -> None:
    job = over(tale)
    tale.put_back(job, "release", spent=False)
    tale.begin()
    tale.move(job, "ready", None)
    tale.log("outcome", "insert", job.id, **tale.row(job, "outcome", state="succeeded", token=11))
    job.state = "succeeded"


@breaks("P2", "cancelled was written over a job that was not waiting")
def outcome_without_a_source(tale: Tale) -> None:
    job = tale.enqueue("bad", insert=False)
    tale.begin()
    tale.log("job", "insert", job.id, job_id="bad")
    tale.log("outcome", "insert", job.id, run_count=0, token=None, state="cancelled")
    job.state = "cancelled"


@breaks("P2", "the outcome failed was overwritten with succeeded")
def outcome_overwritten(tale: Tale) -> None:
    job = begun(tale)
    tale.body("end", job, how="raised")
    tale.settle(job, "failed")
    tale.begin()
    tale.log("outcome", "update", job.id, **tale.row(job, "outcome", state="succeeded", token=11))
    tale.effect(job)
    job.state = "succeeded"


@breaks("P2", "succeeded was written by run 1 (token 11), and nobody held the lease")
def outcome_put_back_as_another(tale: Tale) -> None:
    job = begun(tale)
    tale.body("end", job, how="raised")
    tale.settle(job, "failed")
    tale.begin()
    tale.log("outcome", "delete", job.id, **tale.row(job, "outcome", state="failed", token=11))
    tale.log("outcome", "insert", job.id, **tale.row(job, "outcome", state="succeeded", token=11))
    tale.effect(job)
    job.state = "succeeded"


@breaks("P2", "two rows in outcome")
def two_outcomes(tale: Tale) -> None:
    job = over(tale)
    tale.settle(job)
    tale.begin()
    tale.log("outcome", "insert", job.id, **tale.row(job, "outcome", state="succeeded", token=11))


@breaks("P2", "run 1 ended without a record")
def an_end_without_a_record(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "release", spent=False)
    tale.forget("database.jsonl", id=job.id, place="attempt")
    tale.run_well(job)


@breaks("P2", "run 1 ended with two records")
def an_end_with_two_records(tale: Tale) -> None:
    job = over(tale)
    tale.settle(job)
    tale.log("attempt", "insert", job.id, run_count=1, token=11, how="retry", spent=True)


@breaks("P2", "run 1 (token 11) was ended by run 1 (token 22)")
def a_record_of_another_process(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "release", spent=False)
    tale.lines["database.jsonl"][-2]["row"]["token"] = 22
    tale.run_well(job)


def _zombie(tale: Tale) -> Told:
    """Run 1 was frozen and taken; run 2 is on its way; run 1 returns."""
    job = begun(tale)
    tale.fault("freeze", f"child {CHILD}", ["bad"], until=tale.t + 3)
    tale.pass_(TTL + 0.1)
    tale.put_back(job, "stale")
    tale.claim(job, OTHER)
    tale.start(job)
    tale.effect(job)
    tale.pass_(1)
    tale.body("told", job, CHILD, run=1)
    tale.body("end", job, CHILD, run=1, how="returned")
    return job


@breaks("P2", "succeeded of run 2 was written")
def a_zombies_success_taken_for_that_of_the_holder(tale: Tale) -> None:
    job = _zombie(tale)
    tale.settle(job)
    tale.whole("after")
    tale.body("end", job, how="returned")


@breaks("P2", "run 2 succeeded, and its body had not ended")
def a_zombies_success_and_a_holder_that_was_killed(tale: Tale) -> None:
    tale.settle(_zombie(tale))


@breaks("P2", "run 2 succeeded, and its body raised")
def a_zombies_success_and_a_holder_that_raised(tale: Tale) -> None:
    job = _zombie(tale)
    tale.settle(job)
    tale.body("end", job, how="raised")


@breaks("P2", "retry of run 2 was written")
def a_zombies_retry_taken_for_that_of_the_holder(tale: Tale) -> None:
    job = _zombie(tale)
    tale.put_back(job, "retry")
    tale.run_well(job)
    tale.body("end", job, OTHER, run=2, how="returned")


@breaks("P2", "run 1 succeeded, and its body never began")
def a_success_without_a_body(tale: Tale) -> None:
    job = claimed(tale)
    tale.lines["effects.jsonl"].append({"t": tale.t, "job_id": "bad", "run": 1, "pid": CHILD, "first": True})
    tale.settle(job)


@breaks("P2", "run 7 in the table and run 1 by the log")
def another_run_in_the_table(tale: Tale) -> None:
    tale.whole("bad")
    tale.final("bad")["run_count"] = 7


# ---- P3


@breaks("P3", "run 1 began twice, in 101 and in 202")
def a_run_in_two_processes(tale: Tale) -> None:
    job = begun(tale)
    tale.body("start", job, OTHER, id=job.id, token=11)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)


@breaks("P3", "run 1 began twice, in the same process")
def a_run_twice_in_one_process(tale: Tale) -> None:
    job = begun(tale)
    tale.start(job)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)


@breaks("P3", "run 2 began, and nobody had claimed it")
def a_body_without_a_claim(tale: Tale) -> None:
    job = tale.whole("bad")
    tale.body("start", job, id=job.id, token=11, run=2)


@breaks("P3", "began under token 5 and was claimed under 11")
def a_body_under_another_token(tale: Tale) -> None:
    job = claimed(tale)
    tale.start(job, token=5)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)


@breaks("P3", "run 1 had an effect and never began")
def an_effect_out_of_nowhere(tale: Tale) -> None:
    job = tale.enqueue("bad")
    tale.body("effect", job, run=1)
    tale.run_well(job, OTHER)
    tale.forget("worker-202.jsonl", job_id="bad", ev="start")
    tale.lines["worker-202.jsonl"] = []
    tale.final("bad")


@breaks("P3", "run 3 was claimed after run 1")
def a_run_that_was_left_out(tale: Tale) -> None:
    job = begun(tale)
    tale.body("end", job, how="raised")
    tale.put_back(job, "retry")
    job.run += 1
    tale.lines["database.jsonl"][-1]["row"]["run_count"] = 1
    tale.begin()
    tale.log("ready", "delete", job.id, run_count=1, attempts=1, crashes=0)
    job.run, job.attempts = 3, 2
    tale.log("running", "insert", job.id, **tale.row(job, "running"))
    tale.start(job)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)
    job.runs.append({**job.runs[0], "run_count": 2})


@breaks("P3", "run 1 was claimed out of nowhere")
def a_claim_without_a_source(tale: Tale) -> None:
    job = tale.enqueue("bad", insert=False)
    tale.begin()
    tale.log("job", "insert", job.id, job_id="bad")
    tale.run_well(job)
    tale.forget("database.jsonl", id=job.id, place="ready")
    for line in tale.lines["database.jsonl"]:
        if line["id"] == job.id and line["place"] in {"job", "running"} and line["op"] == "insert":
            line["txid"] = 1


@breaks("P3", "run 1 was claimed twice")
def a_run_that_was_claimed_twice(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "release", spent=False)
    tale.lines["database.jsonl"][-1]["row"]["run_count"] = job.run = 0
    tale.run_well(job, OTHER)
    tale.forget("worker-202.jsonl", job_id="bad", ev="start")


@breaks("P3", "run 1 began with 3 attempts after 0")
def attempts_that_jump(tale: Tale) -> None:
    job = tale.enqueue("bad")
    job.attempts = 2
    tale.run_well(job)
    for line in tale.lines["database.jsonl"]:
        if line["id"] == job.id and line["place"] == "ready":
            line["row"]["attempts"] = 0


@breaks("P3", "run 6 is attempt 6 of at most 5", also=("bad",))
def a_claim_too_many(tale: Tale) -> None:
    _six_attempts(tale)


@breaks("P3", "run 6 began as attempt 6 of at most 5")
def a_body_too_many(tale: Tale) -> None:
    _six_attempts(tale)


@breaks("P3", "6 attempts of at most 5")
def attempts_too_many(tale: Tale) -> None:
    _six_attempts(tale)


def _six_attempts(tale: Tale) -> None:
    job = tale.enqueue("bad")
    for _ in range(5):
        tale.claim(job)
        tale.start(job)
        tale.body("end", job, how="raised")
        tale.put_back(job, "retry")
    tale.run_well(job)


@breaks("P3", "4 crashes of at most 3")
def crashes_too_many(tale: Tale) -> None:
    tale.whole("bad")
    tale.final("bad")["crashes"] = 4


@breaks("P3", "in ready and running at once")
def in_two_places(tale: Tale) -> None:
    job = tale.enqueue("bad")
    tale.run_well(job)
    tale.forget("database.jsonl", id=job.id, place="ready", op="delete")
    tale.jobs["bad"].state = "succeeded"


@breaks("P3", "the count of runs went from 0 to 4 without a claim")
def a_count_that_rose_by_itself(tale: Tale) -> None:
    job = tale.enqueue("bad")
    tale.begin()
    tale.move(job, "ready", None)
    job.run = 4
    tale.log("delayed", "insert", job.id, **tale.row(job, "delayed"))
    tale.run_well(job, source="delayed")
    job.runs.extend({**job.runs[0], "run_count": n} for n in range(1, 5))
    tale.finish()
    tale.lines["runs.jsonl"] = [
        line for line in tale.lines["runs.jsonl"] if line["id"] != job.id or line["run_count"] == 5
    ]
    tale.final("bad")["run_count"] = 5


@breaks("P3", "run 1 ended, and the job waits after run 0")
def a_count_that_fell(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "release", spent=False)
    tale.lines["database.jsonl"][-1]["row"]["run_count"] = 0
    tale.begin()
    tale.log("ready", "delete", job.id, **tale.row(job, "ready", run_count=0))
    tale.log("outcome", "insert", job.id, **tale.row(job, "outcome", run_count=1, token=None, state="cancelled"))
    job.state = "cancelled"


@breaks("P3", "run 1 ended release and attempts went from 1 to 1")
def an_attempt_that_was_not_given_back(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "release", spent=False)
    job.attempts = 1
    tale.lines["database.jsonl"][-1]["row"]["attempts"] = 1
    tale.run_well(job)


@breaks("P3", "1 runs, and 0 records of them")
def a_run_without_a_record_at_the_end(tale: Tale) -> None:
    job = tale.whole("bad")
    tale.finish()
    tale.forget("runs.jsonl", id=job.id)


@breaks("P3", "run 1 has two records")
def a_run_with_two_records_at_the_end(tale: Tale) -> None:
    job = tale.whole("bad")
    job.runs.append(job.runs[0])


@breaks("P3", "run 9 has a record and was never claimed")
def a_record_of_no_run(tale: Tale) -> None:
    job = tale.whole("bad")
    job.runs.append({**job.runs[0], "run_count": 9})


# ---- P4


@breaks("P4", "holds the key pay/k at the same time as first", also=("first",))
def a_key_held_by_two(tale: Tale) -> None:
    first = tale.enqueue("first", key="k")
    tale.whole("bad", key="k")
    tale.run_well(first)


@breaks("P4", "active with the key pay/k at the same time as first")
def two_active_while_the_key_was_given_away_too_early(tale: Tale) -> None:
    """The table of keys looks right all the time; the jobs do not."""
    first = tale.enqueue("first", key="k")
    tale.begin()
    tale.log("held", "delete", first.id, scope="pay", key="k")
    tale.whole("bad", key="k")
    tale.run_well(first)
    tale.forget("database.jsonl", id=first.id, place="held", n=tale.n)


@breaks("P4", "active with the key pay/k at the same time as doubtful")
def a_key_that_a_doubtful_job_lost(tale: Tale) -> None:
    job = tale.enqueue("doubtful", key="k")
    tale.claim(job)
    tale.start(job)
    tale.settle(job, "in_doubt")
    tale.whole("bad", key="k")


@breaks("P4", "skipped without a holder")
def skipped_for_nobody(tale: Tale) -> None:
    tale.skip("bad", "k", None)


@breaks("P4", "skipped without a key")
def skipped_without_a_key(tale: Tale) -> None:
    tale.skip("bad", None, "neighbour")


@breaks("P4", "skipped in favour of neighbour, which never had the key")
def skipped_for_a_stranger(tale: Tale) -> None:
    tale.skip("bad", "k", "neighbour")


@breaks("P4", "skipped in favour of first, which did not have the key during the call")
def skipped_for_one_that_was_over(tale: Tale) -> None:
    tale.whole("first", key="k")
    tale.whole("later")
    tale.pass_(2 * TTL)
    tale.skip("bad", "k", "first")


@breaks("P4", "skipped in favour of first, which did not have the key during the call")
def skipped_for_one_that_came_later(tale: Tale) -> None:
    tale.skip("bad", "k", "first")
    tale.whole("first", key="k")


@breaks("P4", "exists, and was only ever skipped in favour of another")
def skipped_and_made(tale: Tale) -> None:
    first = tale.enqueue("first", key="k")
    tale.skip("bad", "k", "first")
    tale.run_well(first)
    job = tale.jobs["bad"] = Told("bad", len(tale.jobs) + 1, None)
    tale.insert(job)
    tale.run_well(job)


# ---- P5


@breaks("P5", "two rows at once, 2 and 3")
def two_rows_of_one_name(tale: Tale) -> None:
    tale.whole("bad")
    tale.begin()
    tale.log("job", "insert", 3, job_id="bad")
    tale.log("ready", "insert", 3, run_count=0, attempts=0)
    tale.lines["database.jsonl"][-1]["op"] = "update"


@breaks("P5", "two rows at the end, 2 and 3", also=("other",))
def two_rows_at_the_end(tale: Tale) -> None:
    tale.whole("bad")
    row = tale.final("bad")
    tale.lines["jobs.jsonl"].append({**row, "id": 3, "run_count": 0})
    tale.begin()
    tale.log("job", "insert", 3, job_id="other")


@breaks("P5", "answered created by 2 calls")
def created_twice(tale: Tale) -> None:
    job = tale.whole("bad")
    tale.answer(tale.ask("bad"), ("bad", "created", job.id))


@breaks("P5", "answered with id 55, and the row is 2")
def another_id_in_the_answer(tale: Tale) -> None:
    tale.whole("bad")
    tale.answer(tale.ask("bad"), ("bad", "exists", 55))


@breaks("P5", "answered exists, and there is no such row")
def exists_and_does_not(tale: Tale) -> None:
    tale.answer(tale.ask("bad"), ("bad", "exists", 55))


@breaks("P5", "exists, and nobody asked for it")
def a_row_that_nobody_asked_for(tale: Tale) -> None:
    tale.whole("bad")
    tale.forget("enqueue-1.jsonl", op=tale.op)


@breaks("P5", "exists, and no call that could have made it")
def only_ever_seen(tale: Tale) -> None:
    job = tale.whole("bad")
    tale.forget("enqueue-1.jsonl", op=tale.op)
    tale.answer(tale.ask("bad"), ("bad", "exists", job.id))


@breaks("P5", "not one answer for each job, in order")
def fewer_answers_than_jobs(tale: Tale) -> None:
    tale.answer(tale.ask("bad", "neighbour"), ("neighbour", "exists", 1))


@breaks("P5", "the row 2 was made as other")
def a_row_under_two_names(tale: Tale) -> None:
    job = tale.whole("other")
    tale.fate(tale.ask("bad"), "unknown")
    tale.effect(tale.jobs["other"])
    tale.finish()
    tale.lines["jobs.jsonl"].append({**tale.final("other"), "job_id": "bad", "state": "failed"})
    assert job.id == 2


# ---- P6


@breaks("P6", "was run 1 (token 11) and became run 1 (token 22) in place")
def a_beat_that_changed_the_lease(tale: Tale) -> None:
    job = begun(tale)
    tale.beat(job, token=22)
    tale.beat(job, token=22)
    tale.effect(job)
    tale.body("end", job, how="returned")
    job.pid = OTHER
    tale.settle(job)


@breaks("P6", "running held run 1 (token 11) and gave away run 1 (token 22)")
def a_lease_that_changed_unseen(tale: Tale) -> None:
    job = over(tale)
    job.pid = OTHER
    tale.settle(job)


# ---- P7


@breaks("P7", "the tick 00:00 of s has made neighbour already")
def a_tick_with_two_jobs(tale: Tale) -> None:
    tale.whole("bad")
    tale.lines["ticks.jsonl"] = [{"schedule": "s", "instant": "00:00", "job_id": name} for name in ("neighbour", "bad")]


@breaks("P7", "the job of the tick 00:00 of s does not exist")
def a_tick_whose_job_is_missing(tale: Tale) -> None:
    tale.lines["ticks.jsonl"] = [{"schedule": "s", "instant": "00:00", "job_id": "bad"}]


# ---- P8


@breaks("P8", "exists, and every call that could have made it was rolled back")
def made_though_it_was_rolled_back(tale: Tale) -> None:
    tale.whole("bad")
    tale.fate(tale.op, "rolled_back")


@breaks("P8", "exists, and every call that could have made it was refused")
def made_though_it_was_refused(tale: Tale) -> None:
    tale.whole("bad")
    tale.fate(tale.op, "refused")


@breaks("P4", "ran, and there is no such job", job="forgotten")
def ran_though_it_was_skipped_long_before_a_failover(tale: Tale) -> None:
    """What a failover forgets happened while it was under way."""
    a_job_that_ran_and_was_forgotten_before_its_call_was_answered(tale, during=False)


@breaks("P8", "ran, and there is no such job")
def ran_though_it_was_rolled_back(tale: Tale) -> None:
    tale.fate(tale.ask("bad"), "rolled_back")
    tale.lines["effects.jsonl"].append({"t": tale.t, "job_id": "bad", "run": 1, "pid": CHILD, "first": True})


# ---- P9


@breaks("P9", "s after the signal to stop")
def begun_after_the_signal(tale: Tale) -> None:
    tale.stop([CHILD], gone=tale.t + 2)
    tale.pass_(0.6)
    tale.whole("bad")


@breaks("P9", "100 was told to stop and went 60.0 s after the signal", job="")
def gone_too_late(tale: Tale) -> None:
    tale.stop([CHILD], gone=tale.t + 60.01)


@breaks("P9", "100 was told to stop and went never", job="")
def never_gone(tale: Tale) -> None:
    tale.stop([CHILD], gone=None)


@breaks("P9", "run 1 was handed back (release) and its attempt spent")
def handed_back_and_spent(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "release", spent=True)
    tale.run_well(job)


# ---- P10, P11, effects, fsck


@breaks("P10", "a secret of the corpus stands in outcome.error", job="")
def a_secret(tale: Tale) -> None:
    tale.lines["secrets.jsonl"] = [{"where": "outcome.error", "found": "s3cr3t"}]


@breaks("P11", "s after it had to know better", job="lost")
def an_effect_long_after_the_lease_was_lost(tale: Tale) -> None:
    rescued(tale, thaws=TTL + 0.2)
    tale.pass_(3 * TTL)
    tale.effect(tale.jobs["lost"], CHILD, run=1)


@breaks("P11", "s after it had to know better")
def an_effect_of_a_worker_whose_supervisor_stood_still(tale: Tale) -> None:
    """A frozen supervisor is no excuse: its children give up by themselves."""
    job = begun(tale)
    tale.fault("freeze", f"supervisor {SUPERVISOR}", ["bad"], until=tale.t + 30)
    tale.pass_(TTL)
    tale.put_back(job, "stale")
    tale.run_well(job, OTHER)
    tale.body("told", job, CHILD, run=1)
    tale.pass_(2 * TTL)
    tale.effect(job, CHILD, run=1)


@breaks("P11", "run 1 lost its lease and was not told in time")
def a_body_that_nobody_told(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "stale")
    tale.run_well(job, OTHER)
    tale.pass_(2 * TTL)
    tale.body("end", job, CHILD, run=1, how="returned")


@breaks("effects", "the effect of run 1 happened twice")
def an_effect_that_happened_twice(tale: Tale) -> None:
    job = over(tale)
    tale.effect(job)
    tale.lines["effects.jsonl"][-1]["first"] = True
    tale.settle(job)


@breaks("effects", "the effect of run 1 was a repetition before it had happened")
def an_effect_that_was_never_the_first(tale: Tale) -> None:
    tale.whole("bad")
    tale.lines["effects.jsonl"][-1]["first"] = False


@breaks("effects", "succeeded without its effect")
def a_success_without_its_effect(tale: Tale) -> None:
    tale.whole("bad")
    tale.forget("effects.jsonl", job_id="bad")


@breaks("fsck", "what: places")
def inconsistent_at_the_end(tale: Tale) -> None:
    job = tale.whole("bad")
    tale.lines["fsck.jsonl"] = [{"what": "places", "id": job.id, "detail": "ready+outcome"}]


@breaks("P2", "the result of run 1 (token 11) became the outcome of run 2 (token 22)")
def an_outcome_that_another_run_has_made(tale: Tale) -> None:
    job = begun(tale)
    tale.put_back(job, "stale")
    tale.run_well(job, OTHER)
    outcome = next(line for line in tale.lines["database.jsonl"] if line["place"] == "outcome" and line["id"] == job.id)
    outcome["row"]["result"] = {"run": 1, "token": 11}
    tale.body("told", job, CHILD, run=1)


@breaks("crew", "ended by itself", job="")
def a_worker_that_ended_by_itself(tale: Tale) -> None:
    tale.meta["surprises"] = [f"supervisor {SUPERVISOR} ended by itself with 1"]
