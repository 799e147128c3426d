"""Tales of runs in which every promise was kept, also where it was not easy."""

from __future__ import annotations

from torture.tales import CHILD, LATER, OTHER, SUPERVISOR, TTL, Tale, Told


def rescued(tale: Tale, name: str = "lost", thaws: float = 3.0) -> None:
    """Frozen for longer than its ttl, taken, run by another; the zombie asks the sink, is told, and is refused."""
    job = tale.enqueue(name)
    tale.claim(job)
    tale.start(job)
    tale.fault("freeze", f"child {CHILD}", [name], until=tale.t + thaws)
    tale.pass_(TTL + 0.1)
    tale.put_back(job, "stale", refused=1)
    tale.claim(job, OTHER)
    tale.start(job)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)
    tale.pass_(thaws - TTL)
    tale.effect(job, CHILD, run=1)
    tale.body("told", job, CHILD, run=1)
    tale.body("end", job, CHILD, run=1, how="cancelled")
    tale.whole(f"after {name}")


def clean(tale: Tale) -> None:
    for n in range(5):
        tale.whole(f"job {n}")


def a_frozen_worker(tale: Tale) -> None:
    rescued(tale)


def a_killed_worker_whose_last_lines_are_missing(tale: Tale) -> None:
    job = tale.enqueue("killed")
    tale.claim(job)
    tale.start(job)
    tale.fault("kill", f"child {CHILD}", ["killed"])
    tale.put_back(job, "stale")
    tale.run_well(job, OTHER)
    tale.pass_(3 * TTL)
    tale.run_well(tale.enqueue("after"), OTHER)


def a_killed_worker_whose_pid_is_given_again(tale: Tale) -> None:
    """In a long run: the lines of the later process are no sign of life of the first. Tokens are never used again."""
    a_killed_worker_whose_last_lines_are_missing(tale)
    job = tale.enqueue("much later")
    tale.claim(job, LATER)
    tale.start(job)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)
    lines = tale.lines.pop(f"worker-{LATER}.jsonl")
    tale.lines[f"worker-{CHILD}.jsonl"] += [{**line, "pid": CHILD} for line in lines]


def retries_snoozes_and_releases(tale: Tale) -> None:
    job = tale.enqueue("again")
    for how, spent, place in (
        ("retry", True, "delayed"),
        ("snooze", False, "delayed"),
        ("release", False, "ready"),
        ("park", False, "parked"),
    ):
        tale.claim(job)
        tale.start(job)
        tale.body("end", job, how="raised")
        tale.put_back(job, how, spent=spent, place=place)
        if place != "ready":
            tale.begin()
            tale.move(job, place, "ready")
    tale.run_well(job)
    assert (job.run, job.attempts) == (5, 2)


def a_beat_and_a_start_mark(tale: Tale) -> None:
    job = tale.enqueue("long")
    tale.claim(job)
    tale.start(job)
    tale.beat(job)
    tale.effect(job)
    tale.beat(job)
    tale.body("end", job, how="returned")
    tale.settle(job)


def an_answer_that_was_lost(tale: Tale) -> None:
    """One of them had happened, one had not; both are asked for again under the same names."""
    happened, lost = tale.ask("happened"), tale.ask("lost")
    tale.fate(happened, "unknown")
    tale.fate(lost, "unknown")
    job = tale.enqueue("happened", answered=False)
    tale.answer(tale.ask("happened"), ("happened", "exists", job.id))
    tale.run_well(job)
    tale.whole("lost")


def a_client_that_was_killed(tale: Tale) -> None:
    tale.ask("neither asked again nor made")
    job = tale.enqueue("made", answered=False)
    tale.run_well(job)


def a_transaction_that_was_rolled_back(tale: Tale) -> None:
    for name in ("never", "at last"):
        op = tale.ask(name)
        tale.answer(op, (name, "created", 77))
        tale.fate(op, "rolled_back")
    tale.fate(tale.ask("refused"), "refused")
    tale.whole("at last")


def a_key_that_goes_from_hand_to_hand(tale: Tale) -> None:
    first = tale.enqueue("first", key="k")
    tale.skip("second", "k", "first")
    tale.run_well(first)
    tale.whole("third", key="k")
    job = tale.enqueue("fourth", key="k")
    tale.run_well(job)


def a_key_that_changes_hands_in_one_transaction(tale: Tale) -> None:
    """The caller's own transaction ends one job and enqueues the next with its key."""
    first, op = tale.enqueue("first", key="k"), tale.ask("second", key="k")
    tale.claim(first)
    tale.start(first)
    tale.effect(first)
    tale.body("end", first, how="returned")
    tale.settle(first)
    tx = tale.tx
    second = tale.enqueue("second", key="k", insert=False, answered=False)
    tale.begin()
    tale.tx = tx
    tale.log("job", "insert", second.id, job_id="second")
    tale.move(second, None, "ready")
    tale.log("held", "insert", second.id, scope="pay", key="k")
    tale.tx = tx + 1
    tale.answer(op, ("second", "created", second.id))
    tale.run_well(second)


def a_new_holder_whose_row_was_written_while_the_old_one_ended(tale: Tale) -> None:
    """Its row is written first; then it waits for the key until the other has committed."""
    first = tale.enqueue("first", key="k")
    tale.claim(first)
    tale.start(first)
    tale.effect(first)
    tale.body("end", first, how="returned")
    second = tale.enqueue("second", key="k", insert=False, answered=False)
    tale.tx = 500
    tale.log("job", "insert", second.id, job_id="second")
    tale.move(second, None, "ready")
    tale.tx = 400
    tale.settle(first)
    tale.tx = 500
    tale.log("held", "insert", second.id, scope="pay", key="k")
    tale.tx = 501
    tale.run_well(second)


def cancelled_while_it_waited(tale: Tale) -> None:
    job = tale.enqueue("cancelled")
    tale.begin()
    tale.move(job, "ready", None)
    tale.log("outcome", "insert", job.id, run_count=0, token=None, state="cancelled", attempts=0, crashes=0)
    job.state = "cancelled"


def resubmitted_after_it_had_failed(tale: Tale) -> None:
    job = tale.enqueue("twice")
    tale.claim(job)
    tale.start(job)
    tale.body("end", job, how="raised")
    tale.settle(job, "failed")
    op = tale.ask("twice")
    tale.begin()
    tale.log("outcome", "delete", job.id, **tale.row(job, "outcome", state="failed", token=11))
    tale.log("attempt", "insert", job.id, run_count=1, token=11, how="failed", spent=True)
    tale.log("job", "update", job.id, job_id="twice")
    job.attempts = 0
    tale.move(job, None, "ready")
    tale.answer(op, ("twice", "resubmitted", job.id))
    tale.run_well(job)


def a_resubmission_that_finds_its_key_held(tale: Tale) -> None:
    """The outcome is taken, and put back as it was."""
    job = tale.enqueue("failed", key="k")
    tale.claim(job)
    tale.start(job)
    tale.body("end", job, how="raised")
    tale.settle(job, "failed")
    holder = tale.enqueue("holder", key="k")
    op = tale.ask("failed", key="k")
    tale.begin()
    outcome = tale.row(job, "outcome", state="failed", token=11)
    tale.log("outcome", "delete", job.id, **outcome)
    tale.log("outcome", "insert", job.id, **outcome)
    tale.answer(op, ("failed", "skipped", "holder"))
    tale.run_well(holder)


def failed_because_it_was_lost_too_often(tale: Tale) -> None:
    job = tale.enqueue("stale")
    tale.claim(job)
    tale.start(job)
    tale.fault("kill", f"child {CHILD}", ["stale"])
    tale.settle(job, "failed", stale=True)


def purged_when_it_was_over(tale: Tale) -> None:
    old = tale.whole("old")
    tale.begin()
    tale.log("outcome", "delete", old.id, **tale.row(old, "outcome", state="succeeded", token=11))
    tale.log("job", "delete", old.id, job_id="old")
    old.purged = True


def a_late_write_that_is_counted_while_the_job_moves_on(tale: Tale) -> None:
    job = tale.enqueue("busy")
    tale.claim(job)
    tale.start(job)
    tale.fault("kill", f"child {CHILD}", ["busy"])
    tale.put_back(job, "stale", refused=1)
    tale.claim(job, OTHER)
    tale.start(job)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)
    counted = {"n": tale.n - 0.5, "txid": 9000, "at": 1.7e9, "place": "attempt", "op": "update", "id": job.id}
    tale.lines["database.jsonl"].insert(
        -1, {**counted, "row": {"run_count": 1, "token": 11, "how": "stale", "spent": True, "refused": 1}}
    )


def a_stop_that_hands_back_and_waits_for_the_thaw(tale: Tale) -> None:
    """The supervisor stands still when it is told to stop, so its child begins one more job."""
    tale.fault("freeze", f"supervisor {SUPERVISOR}", [], until=tale.t + 1.5)
    tale.stop([CHILD], gone=tale.t + 4.0)
    tale.pass_(1.0)
    job = tale.enqueue("handed back")
    tale.claim(job)
    tale.start(job)
    tale.body("end", job, how="cancelled")
    tale.put_back(job, "release", spent=False)
    tale.pass_(4.0)
    tale.run_well(job, OTHER)


def jobs_of_a_schedule(tale: Tale) -> None:
    job = tale.enqueue("tick 1")
    tale.lines["enqueue-1.jsonl"] = [line for line in tale.lines["enqueue-1.jsonl"] if line["op"] != tale.op]
    tale.run_well(job)
    tale.lines["ticks.jsonl"] = [
        {"schedule": "s", "instant": "00:00", "job_id": "tick 1"},
        {"schedule": "s", "instant": "00:01", "job_id": None},
    ]


def a_claim_that_a_failover_forgot(tale: Tale) -> None:
    """The standby had not heard of it: the job is claimed again as the same run, and the first body is told."""
    job = tale.enqueue("forgotten")
    fence = {"id": job.id, "token": 11, "attempt": 1}
    tale.body("start", job, CHILD, run=1, **fence)
    tale.fault("failover-forgetful", "the primary", ["forgotten"])
    tale.claim(job, OTHER)
    tale.start(job)
    tale.body("told", job, CHILD, run=1)
    tale.effect(job)
    tale.body("end", job, how="returned")
    tale.settle(job)


def a_run_that_was_over_and_was_forgotten(tale: Tale) -> None:
    """Its outcome as well: the same process may make the same claim again."""
    job = tale.enqueue("twice")
    tale.body("start", job, CHILD, run=1, id=job.id, token=11, attempt=1)
    tale.effect(job, CHILD, run=1)
    tale.body("end", job, CHILD, run=1, how="returned")
    tale.fault("failover-forgetful", "the primary", ["twice"])
    tale.run_well(job)


def a_job_that_ran_and_was_forgotten_before_its_call_was_answered(tale: Tale, during: bool = True) -> None:
    """The standby had heard of neither; asked again under the same name, it finds its key with somebody else."""
    op = tale.ask("forgotten", key="k")
    began = tale.t
    if not during:
        tale.body("start", Told("forgotten", 77, "k", run=1), CHILD, id=77, token=11, attempt=1)
    tale.fault("failover-forgetful", "the primary", ["-"], until=began + 1)
    if during:
        tale.body("start", Told("forgotten", 77, "k", run=1), CHILD, id=77, token=11, attempt=1)
    holder = tale.enqueue("holder", key="k")
    tale.answer(op, ("forgotten", "skipped", "holder"))
    tale.run_well(holder)


def a_call_that_was_sent_twice(tale: Tale) -> None:
    """Refused once; then its first try made the job, whose answer was lost, and the second found it there, over."""
    op = tale.ask("sent twice")
    tale.fate(op, "refused")
    op = tale.ask("sent twice")
    job = tale.jobs["sent twice"] = Told("sent twice", len(tale.jobs) + 1, None)
    tale.insert(job)
    tale.run_well(job)
    tale.answer(op, ("sent twice", "deduplicated", job.id))
    tale.lines["enqueue-1.jsonl"][-1]["answers"][0]["unsure"] = True


SOUND = [
    clean, a_frozen_worker, a_killed_worker_whose_last_lines_are_missing, a_killed_worker_whose_pid_is_given_again,
    retries_snoozes_and_releases,
    a_beat_and_a_start_mark, an_answer_that_was_lost, a_client_that_was_killed, a_transaction_that_was_rolled_back,
    a_key_that_goes_from_hand_to_hand, a_key_that_changes_hands_in_one_transaction,
    a_new_holder_whose_row_was_written_while_the_old_one_ended, cancelled_while_it_waited, resubmitted_after_it_had_failed,
    a_resubmission_that_finds_its_key_held,
    failed_because_it_was_lost_too_often, purged_when_it_was_over, a_late_write_that_is_counted_while_the_job_moves_on,
    a_stop_that_hands_back_and_waits_for_the_thaw, jobs_of_a_schedule,
    a_claim_that_a_failover_forgot, a_run_that_was_over_and_was_forgotten,
    a_job_that_ran_and_was_forgotten_before_its_call_was_answered, a_call_that_was_sent_twice,
]  # fmt: skip
