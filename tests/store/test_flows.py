"""Flows: one text, the same answers on a sync connection, an async one, and the worker's wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fencepost.domain.job import Answer, Fence
from fencepost.domain.outcome import Settlement
from fencepost.errors import SchemaError, UsageError
from fencepost.store import control, duties, insight, jobs, workers
from fencepost.store.views import ServiceRecord, TaskRow
from fencepost.store.wire import Wire
from servers import Database
from store.hands import DRIVERS, SQL, TOKEN, Driver, claim, enqueue, fence_of, new, settle, wire_driver


@pytest.mark.spec("Q5", "Q11")
def test_enqueue_answers_every_job_in_the_order_of_the_call(driver: Driver) -> None:
    enqueue(driver, new("b", unique_key="k"), new("z"))

    answers = enqueue(driver, new("c", unique_key="k"), new("a"), new("z"), new("a"), new(None, unique_key="free"))

    assert [(a.status, a.holder) for a in answers] == [
        (Answer.SKIPPED, "b"),
        (Answer.CREATED, None),
        (Answer.EXISTS, None),
        (Answer.EXISTS, None),
        (Answer.CREATED, None),
    ]
    assert [a.job_id for a in answers][:4] == ["c", "a", "z", "a"]
    assert answers[4].job_id
    assert answers[0].id == insight_id(driver, "b")


def insight_id(driver: Driver, job_id: str) -> int:
    found = driver.run(insight.show_job(SQL, job_id))
    assert found is not None
    return found.id


@pytest.mark.spec("Q3")
def test_the_same_id_with_other_arguments_says_so_and_keeps_the_first(driver: Driver) -> None:
    enqueue(driver, new("a", payload='{"n": 1}'))

    same, other = enqueue(driver, new("a", payload='{"n":1}'))[0], enqueue(driver, new("a", payload='{"n": 2}'))[0]

    assert (same.differs, other.differs) == (False, True)
    found = driver.run(insight.show_job(SQL, "a"))
    assert found is not None
    assert found.payload == {"n": 1}


@pytest.mark.spec("Q6")
def test_every_option_travels_to_the_run_and_back(driver: Driver) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    wanted = new(
        "all",
        payload='{"big": 123456789012345678901234567890}',
        version=3,
        queue="mail",
        priority=-7,
        run_at=datetime(2020, 1, 1, tzinfo=UTC),
        unique_key="u",
        concurrency_key="c",
        tenant="acme",
        finish_by=soon,
        max_attempts=2,
        dedup_s=1.5,
        tags=("a", "b,c", 'd"'),
        meta={"trace": "00-ab", "n": [1, None]},
    )

    enqueue(driver, wanted)
    job = claim(driver, queue="mail")[0]
    view = driver.run(insight.show_job(SQL, "all"))

    assert (job.version, job.attempts, job.max_attempts, job.run_count) == (3, 1, 2, 1)
    assert '"big": 123456789012345678901234567890' in job.payload
    assert job.tags == ("a", "b,c", 'd"')
    assert job.finish_by == soon
    assert job.run_at == datetime(2020, 1, 1, tzinfo=UTC)
    assert view is not None
    assert (view.state, view.priority, view.tenant, view.unique_key, view.concurrency_key) == (
        "running",
        -7,
        "acme",
        "u",
        "c",
    )
    assert view.meta == {"trace": "00-ab", "n": [1, None]}
    assert view.payload == {"big": 123456789012345678901234567890}


def test_a_delay_is_counted_from_the_call(driver: Driver) -> None:
    enqueue(driver, new("later", delay_s=3600.0))

    assert claim(driver) == []
    found = driver.run(insight.show_job(SQL, "later"))
    assert found is not None
    assert (found.state, found.label) == ("queued", "scheduled")
    assert 3590 < (found.run_at - found.created_at).total_seconds() < 3610


@pytest.mark.spec("C1", "C3")
def test_a_run_from_claim_to_outcome(driver: Driver) -> None:
    enqueue(driver, new("a"), new("b"), new("c"))

    got = driver.run(jobs.claim(SQL, TOKEN, {"default": 2, "unused": 5, "none": 0}, max_bytes=1 << 24, ttl_s=12.5))
    fences = [fence_of(job) for job in got.jobs]

    assert [job.job_id for job in got.jobs] == ["a", "b"]
    assert {job.ttl_s for job in got.jobs} == {12.5}
    assert (got.bad, got.aside) == ([], 0)
    assert driver.run(jobs.mine(SQL, TOKEN)) == fences
    assert driver.run(jobs.start(SQL, TOKEN, fences)) == dict.fromkeys(fences, "ok")
    assert driver.run(jobs.beat(SQL, fences, started=[True, False], progress=['{"done": 3}', None])) == dict.fromkeys(
        fences, "ok"
    )
    assert driver.run(jobs.checkpoint(SQL, fences[0], '{"page": 7}')) is True
    assert settle(driver, got.jobs[:1], "retry", code="E", error="tried", stats='{"steps": 2}') == {
        fences[0].id: jobs.Settled("accepted", "queued")
    }
    again = claim(driver, 1)
    assert [(j.job_id, j.checkpoint, j.run_count, j.attempts) for j in again] == [("a", '{"page": 7}', 2, 2)]
    assert settle(driver, again, result='{"ok": true}')[again[0].id] == jobs.Settled("accepted", "succeeded")
    view = driver.run(insight.show_job(SQL, "a"))
    assert view is not None
    assert (view.state, view.result) == ("succeeded", {"ok": True})
    assert [(r.how, r.spent, r.error_code, r.stats) for r in view.runs] == [
        ("retry", True, "E", {"steps": 2}),
        ("succeeded", True, None, None),
    ]


@pytest.mark.spec("C3", "W6")
def test_an_outcome_sent_twice_is_already_there_and_a_foreign_one_is_lost(driver: Driver) -> None:
    enqueue(driver, new("a"))
    claimed = claim(driver)

    first, second = settle(driver, claimed), settle(driver, claimed)
    foreign = settle(driver, claimed, token=TOKEN + 1)

    id_ = claimed[0].id
    assert [first[id_].answer, second[id_].answer, foreign[id_].answer] == ["accepted", "already", "lost"]


def test_outcomes_of_two_processes_in_one_call_are_a_fault_of_the_program(wire: Wire) -> None:
    one = Settlement(act="succeed")

    with pytest.raises(ValueError, match="one process at a time"):
        wire.run(jobs.settle(SQL, [(Fence(1, 1, 1), one), (Fence(2, 1, 2), one)]))


@pytest.mark.spec("C5", "C6")
def test_one_beat_speaks_for_several_processes_and_answers_each_run_of_a_job(wire: Wire) -> None:
    enqueue(wire, new("a"), new("b"))
    first = fence_of(claim(wire, 1, token=1)[0], 1)
    other = fence_of(claim(wire, 1, token=2)[0], 2)
    gone = Fence(other.id, other.run_count, 1)  # the same id under another process's fence

    for order in ([first, gone, other], [other, gone, first]):
        assert wire.run(jobs.beat(SQL, order)) == {first: "ok", other: "ok", gone: "lost"}
    assert wire.run(jobs.beat(SQL, [gone])) == {gone: "lost"}


@pytest.mark.spec("C3", "W6")
def test_two_runs_of_one_job_in_one_batch_are_answered_each(driver: Driver) -> None:
    """The process whose lease was taken has claimed the job again, and both bodies end at once."""
    enqueue(driver, new("a"))
    first = fence_of(claim(driver)[0])
    driver.run(jobs.rescue(SQL, limit=10, grace_s=-3600.0))
    second = fence_of(claim(driver)[0])

    for items in ([first, second], [second, first]):
        answers = driver.run(jobs.settle(SQL, [(fence, Settlement(act="succeed")) for fence in items]))
        assert answers[first].answer == "lost"
        assert answers[second].answer in {"accepted", "already"}


def test_a_beat_keeps_the_rows_of_processes_that_run_nothing(wire: Wire) -> None:
    assert not wire.run(workers.is_registered(SQL, 7))
    wire.run(workers.register(SQL, 7, "host", 1, {"t": 2}, {"mail": 3}))
    assert wire.run(workers.is_registered(SQL, 7))
    before = wire.run(insight.workers(SQL))[0]

    assert wire.run(jobs.beat(SQL, [], workers=[7])) == {}

    after = wire.run(insight.workers(SQL))[0]
    assert after.heartbeat_at > before.heartbeat_at
    assert (after.tasks, after.queues, after.alive) == ({"t": 2}, {"mail": 3}, True)
    wire.run(workers.unregister(SQL, 7))
    assert wire.run(insight.workers(SQL)) == []


@pytest.mark.spec("W6", "C12")
@pytest.mark.parametrize("bad", ["NUL \0", "lone \ud800 surrogate"])
def test_what_the_driver_cannot_even_send_ends_its_own_job_only(driver: Driver, bad: str) -> None:
    enqueue(driver, new("good"), new("bad"))
    good, spoilt = claim(driver)
    items = [
        (fence_of(good), Settlement(act="succeed")),
        (fence_of(spoilt), Settlement(act="succeed", result=f'"{bad}"')),
    ]

    answers = driver.run(jobs.settle(SQL, items))

    good_end, bad_end = jobs.Settled("accepted", "succeeded"), jobs.Settled("accepted", "failed")
    assert answers == {fence_of(good): good_end, fence_of(spoilt): bad_end}
    view = driver.run(insight.show_job(SQL, "bad"))
    assert view is not None
    assert view.last_error_code == "UNSTORABLE"


@pytest.mark.spec("W6", "C12")
@pytest.mark.parametrize("result", [r'"\u0000"', "not json", "NaN", "[" * 50_000 + "]" * 50_000])
def test_what_the_server_refuses_ends_its_own_job_only(wire: Wire, result: str) -> None:
    enqueue(wire, new("good"), new("bad"))
    good, spoilt = claim(wire)
    items = [(fence_of(good), Settlement(act="succeed")), (fence_of(spoilt), Settlement(act="succeed", result=result))]

    answers = wire.run(jobs.settle(SQL, items))

    assert [answers[fence_of(good)].state, answers[fence_of(spoilt)].state] == ["succeeded", "failed"]


@pytest.mark.spec("C12")
def test_a_job_with_an_infinite_time_spoils_no_claim(wire: Wire, database: Database) -> None:
    enqueue(wire, new("a"), new("endless"))
    with database.connect() as conn:
        conn.execute("update fencepost.ready set run_at = '-infinity', finish_by = 'infinity' where id = 2")

    claimed = claim(wire)

    assert [job.job_id for job in claimed] == ["endless", "a"]


@pytest.mark.spec("C12")
def test_a_row_that_cannot_be_read_is_given_back_apart(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(wire, new("a"), new("b"))
    real = jobs._claimed_job

    def picky(row: tuple[object, ...]) -> object:
        if row[2] == "a":
            raise ValueError("no such thing")
        return real(row)

    monkeypatch.setattr(jobs, "_claimed_job", picky)

    got = wire.run(jobs.claim(SQL, TOKEN, {"default": 5}, max_bytes=1 << 24, ttl_s=30))

    assert [job.job_id for job in got.jobs] == ["b"]
    assert [(bad.fence, bad.reason) for bad in got.bad] == [(Fence(1, 1, TOKEN), "no such thing")]


@pytest.mark.spec("Q7", "Q11")
@pytest.mark.parametrize(
    "wanted",
    [
        new("a", payload=r'{"x": "\u0000"}'),
        new("a", payload="{"),
        new("a", payload='{"x": "\0"}'),
        new("a", payload='{"x": "\ud800"}'),
        new("a", priority=99_999),
        new("a", max_attempts=40_000),
        new("a\0"),
    ],
    ids=["22P05", "22P02", "nul", "surrogate", "22003", "22003 too", "nul in id"],
)
def test_values_that_postgres_cannot_hold_are_the_callers_fault(driver: Driver, wanted: object) -> None:
    with pytest.raises(UsageError) as caught:
        enqueue(driver, new("good"), wanted)  # type: ignore[arg-type]

    assert "\n" not in str(caught.value)
    assert driver.run(insight.list_jobs(SQL)) == []


@pytest.mark.parametrize("kind", sorted(DRIVERS))
def test_without_a_schema_every_flow_names_the_command(empty_database: Database, kind: str) -> None:
    driver: Driver = DRIVERS[kind](empty_database.dsn)
    try:
        with pytest.raises(SchemaError, match="fencepost migrate"):
            enqueue(driver, new("a"))
    finally:
        driver.close()


@pytest.mark.spec("Q11")
def test_a_refused_enqueue_before_the_server_leaves_the_callers_transaction_alive(database: Database) -> None:
    from fencepost.store.drive import run

    with database.connect() as conn, conn.transaction():
        with pytest.raises(UsageError):
            run(conn, jobs.enqueue(SQL, [new("a", payload='{"x": "\ud800"}')]))
        run(conn, jobs.enqueue(SQL, [new("b")]))

        assert conn.execute("select count(*) from fencepost.job").fetchone() == (1,)


@pytest.mark.spec("C6", "W11")
def test_a_dead_process_is_rescued_in_its_four_classes(wire: Wire) -> None:
    enqueue(wire, *(new(name) for name in ("crash", "overdue", "victim", "unstarted")))
    ids = {job.job_id: job.id for job in claim(wire)}

    rescued = wire.run(
        jobs.rescue_process(SQL, TOKEN, started=[ids["crash"]], overdue=[ids["overdue"]], interrupted=[ids["victim"]])
    )

    assert {r.id for r in rescued} == set(ids.values())
    views = {name: wire.run(insight.show_job(SQL, name)) for name in ids}
    told = {name: (v.runs[0].how, v.runs[0].spent, v.crashes) for name, v in views.items() if v is not None}
    assert told["crash"] == ("stale", True, 1)
    assert told["overdue"][1:] == (True, 0)
    assert told["victim"] == ("release", False, 0)
    assert told["unstarted"] == ("release", False, 0)
    assert wire.run(jobs.rescue_process(SQL, TOKEN)) == []


@pytest.mark.spec("C6", "C10")
def test_rescue_goes_by_the_ttl_of_the_lease_and_adds_the_grace(wire: Wire) -> None:
    enqueue(wire, new("a"))
    claim(wire, ttl_s=0.001)

    assert wire.run(jobs.rescue(SQL, limit=10, grace_s=60.0)) == []
    assert [r.state for r in wire.run(jobs.rescue(SQL, limit=10))] == ["queued"]


@pytest.mark.spec("Q10")
def test_published_tasks_are_written_once_and_never_taken_back(wire: Wire) -> None:
    newer = TaskRow(name="t", version=2, queue="mail", max_attempts=9)

    assert wire.run(workers.publish_tasks(SQL, [newer, TaskRow(name="u")])) == 2
    assert wire.run(workers.publish_tasks(SQL, [newer, TaskRow(name="u")])) == 0
    assert wire.run(workers.publish_tasks(SQL, [TaskRow(name="t", version=1)])) == 0
    assert wire.run(workers.publish_tasks(SQL, [])) == 0
    enqueue(wire, new("a"))
    assert [(j.version, j.max_attempts) for j in claim(wire, queue="mail")] == [(2, 9)]


@pytest.mark.spec("S3")
def test_one_leads_the_other_learns_what_the_first_found_good(wire: Wire) -> None:
    seen = wire.run(duties.evidence(SQL))
    good = ServiceRecord(started_at=seen.started_at, timeline=seen.timeline, at=seen.now)

    first = wire.run(duties.lead(SQL, 1, 30.0, None))
    kept = wire.run(duties.lead(SQL, 1, 30.0, good))
    refused = wire.run(duties.lead(SQL, 2, 30.0, None))
    assert wire.run(duties.resign(SQL, 1)) is True
    second = wire.run(duties.lead(SQL, 2, 30.0, None))

    assert [a.leading for a in (first, kept, refused, second)] == [True, True, False, True]
    assert second.epoch == first.epoch + 1
    assert second.record == good
    assert wire.run(duties.resign(SQL, 1)) is False


@pytest.mark.spec("L4", "C7")
def test_the_bounded_duties_answer_how_much_they_did(wire: Wire, database: Database) -> None:
    enqueue(wire, new("old"), new("late", start_by=datetime(2020, 1, 1, tzinfo=UTC)), new("key", concurrency_key="k"))
    with database.connect() as conn:
        conn.execute("update fencepost.job set task = 'unknown' where job_id = 'key'")
    assert wire.run(duties.expire(SQL, 10)) == 1
    old, keyed = claim(wire)
    settle(wire, [old])
    settle(wire, [keyed], "park")
    with database.connect() as conn:
        conn.execute("update fencepost.outcome set purge_at = now() - interval '1 s'")
        conn.execute("update fencepost.gate set used = 5")

    assert wire.run(duties.purge(SQL, 10)) == 2
    assert wire.run(duties.recount_gates(SQL, 10)) == 1
    assert wire.run(duties.recount_gates(SQL, 10)) == 0
    assert wire.run(duties.wake_known(SQL, 10)) == 0
    wire.run(workers.register(SQL, 9, "h", 1, {"unknown": 1}, ["default"]))
    assert wire.run(duties.wake_known(SQL, 10)) == 1
    assert wire.run(duties.sweep_gates(SQL, 10)) == 1
    assert wire.run(duties.forget_workers(SQL, 3600.0, 10)) == 0
    assert wire.run(duties.forget_workers(SQL, 0.0, 10)) == 1
    for table in wire.run(duties.vacuum_candidates(SQL, 0)):
        wire.call(duties.vacuum(SQL, table.name))
    with pytest.raises(KeyError):
        duties.vacuum(SQL, "job; drop table x")


def test_slots_that_a_users_transaction_left_are_given_back_by_promote(wire: Wire, database: Database) -> None:
    enqueue(wire, new("a", concurrency_key="k"), new("next", concurrency_key="k"))
    (job,) = claim(wire)
    from fencepost.store.drive import run

    with database.connect() as conn, conn.transaction():
        answer = run(conn, jobs.settle(SQL, [(fence_of(job), Settlement(act="succeed"))], defer=True))
    assert answer[fence_of(job)].answer == "accepted"
    assert claim(wire) == []

    assert wire.run(jobs.promote(SQL, 10)) == 1

    assert [job.job_id for job in claim(wire)] == ["next"]
    assert wire.run(jobs.promote(SQL, 10)) == 0


def test_an_empty_call_asks_the_database_nothing() -> None:
    nowhere = wire_driver("host=203.0.113.1 connect_timeout=2")

    assert nowhere.run(jobs.enqueue(SQL, [])) == []
    assert nowhere.run(jobs.settle(SQL, [])) == {}
    assert nowhere.run(jobs.start(SQL, 1, [])) == {}
    assert nowhere.run(jobs.claim(SQL, 1, {"q": 0}, max_bytes=1, ttl_s=1)).jobs == []


@pytest.mark.spec("A3", "W8")
def test_operators_acts_are_kept_with_name_and_reason(driver: Driver) -> None:
    enqueue(driver, new("a"), new("b"), new("c"))
    driver.run(jobs.claim(SQL, TOKEN, {"default": 1}, max_bytes=1 << 24, ttl_s=30))

    assert driver.run(control.cancel(SQL, "a", "ann", "wrong address")) == "requested"
    assert driver.run(control.cancel(SQL, "b", "ann", "")) == "cancelled"
    assert driver.run(control.cancel(SQL, "b", "ann", "")) == "finished"
    assert driver.run(control.cancel(SQL, "nobody", "ann", "")) == "unknown"
    assert driver.run(control.retry(SQL, "b", "bob", "right after all")) == ("resubmitted", None)
    assert driver.run(control.retry(SQL, "b", "bob", "")) == ("active", None)

    view = driver.run(insight.show_job(SQL, "b"))
    assert view is not None
    assert [(act.actor, act.reason) for act in view.audit][0] == ("ann", None)
    assert [(act.actor, act.was, act.became, act.reason) for act in view.audit][-1] == (
        "bob",
        "cancelled",
        "queued",
        "right after all",
    )


@pytest.mark.spec("R5")
def test_a_retry_whose_key_is_held_changes_nothing_and_names_the_holder(wire: Wire) -> None:
    enqueue(wire, new("a", unique_key="k"))
    settle(wire, claim(wire), "fail", code="X")
    enqueue(wire, new("b", unique_key="k"))

    assert wire.run(control.retry(SQL, "a", "ann", "")) == ("skipped", "b")
    view = wire.run(insight.show_job(SQL, "a"))
    assert view is not None
    assert (view.state, view.manual) == ("failed", 0)


@pytest.mark.spec("L7")
@pytest.mark.parametrize(("verdict", "state"), [("succeeded", "succeeded"), ("queued", "queued"), ("failed", "failed")])
def test_a_doubtful_job_is_resolved_by_a_verdict(wire: Wire, verdict: str, state: str) -> None:
    enqueue(wire, new("a"))
    settle(wire, claim(wire), "doubt", code="IN_DOUBT")
    assert wire.run(control.retry(SQL, "a", "ann", "")) == ("in_doubt", None)
    assert wire.run(control.discard(SQL, "a", "ann", "")) == "in_doubt"

    assert wire.run(control.resolve(SQL, "a", verdict, "ann", "asked them", '{"n": 1}')) == "resolved"

    assert wire.run(control.resolve(SQL, "a", verdict, "ann", "again")) == "not_in_doubt"
    assert wire.run(control.resolve(SQL, "b", verdict, "ann", "")) == "unknown"
    view = wire.run(insight.show_job(SQL, "a"))
    assert view is not None
    assert view.state == state
    with pytest.raises(UsageError, match="verdict must be one of"):
        wire.run(control.resolve(SQL, "a", "maybe", "ann", ""))


def test_discard_removes_an_ended_job_only(wire: Wire) -> None:
    enqueue(wire, new("a"), new("b"))
    settle(wire, claim(wire, 1))

    assert wire.run(control.discard(SQL, "a", "ann", "gdpr")) == "discarded"
    assert wire.run(control.discard(SQL, "b", "ann", "gdpr")) == "active"
    assert wire.run(control.discard(SQL, "c", "ann", "gdpr")) == "unknown"
    assert wire.run(insight.show_job(SQL, "a")) is None


def test_a_paused_queue_hands_nothing_out_and_says_by_whom(wire: Wire) -> None:
    enqueue(wire, new("a"))

    assert wire.run(control.pause_queue(SQL, "default", "ann", "provider is down")) == "paused"
    assert wire.run(control.pause_queue(SQL, "default", "bob", "me too")) == "already"
    assert claim(wire) == []
    queue = wire.run(insight.queues(SQL))[0]
    assert (queue.paused, queue.paused_by, queue.paused_reason) == (True, "ann", "provider is down")

    assert wire.run(control.resume_queue(SQL, "default", "ann", "it is back")) == "resumed"
    assert wire.run(control.resume_queue(SQL, "default", "ann", "")) == "already"
    assert len(claim(wire)) == 1


def test_an_act_without_a_name_is_refused(wire: Wire) -> None:
    with pytest.raises(UsageError, match="actor"):
        wire.run(control.cancel(SQL, "a", " ", "why"))
    with pytest.raises(UsageError, match="queue"):
        wire.run(control.pause_queue(SQL, "", "ann", "why"))
