"""What enqueue answers: a value for every case, true when it was given, and never an aborted transaction (SPEC Q11)."""

from __future__ import annotations

import pytest

from client.shop import Shop
from fencepost import Answer


@pytest.mark.spec("Q3", "Q11")
def test_a_known_id_exists_as_long_as_it_waits_or_runs(shop: Shop) -> None:
    receipt = shop.receipt.using(job_id="receipt:7")
    created = receipt.enqueue(7)
    waits = receipt.enqueue(7)
    assert shop.claimed().job_id == "receipt:7"

    runs = receipt.enqueue(7)

    assert [created.status, waits.status, runs.status] == [Answer.CREATED, Answer.EXISTS, Answer.EXISTS]
    assert {created.id, waits.id, runs.id} == {created.id}
    assert (created.is_new, waits.is_new) == (True, False)
    assert shop.count() == 1


@pytest.mark.spec("Q3", "Q11")
def test_the_same_id_with_other_arguments_says_so_and_keeps_the_first(shop: Shop) -> None:
    """UNQ-3: other order of keys, other spelling of defaults: equal means equal as JSON, and only that."""
    receipt = shop.receipt.using(job_id="receipt:7")
    receipt.enqueue(7, note="first")

    same = receipt.enqueue(note="first", order_id=7)
    other = receipt.enqueue(7, note="second")
    fewer = receipt.enqueue(7)
    foreign = shop.report.using(job_id="receipt:7").enqueue("daily")

    assert [one.status for one in (same, other, fewer, foreign)] == [Answer.EXISTS] * 4
    assert [one.differs for one in (same, other, fewer, foreign)] == [False, True, True, True]
    assert shop.ask("select task, payload from fencepost.job") == [("receipt.send", {"order_id": 7, "note": "first"})]


@pytest.mark.spec("Q3", "Q11")
def test_after_success_the_id_is_deduplicated_for_the_window_and_then_submitted_anew(shop: Shop) -> None:
    """UNQ-5."""
    daily = shop.receipt.using(job_id="daily", dedup_window="1h")
    first = daily.enqueue(1)
    shop.end("daily", "succeed")

    inside = daily.enqueue(2)
    shop.ask("update fencepost.outcome set finished_at = finished_at - interval '61 min'")
    after = daily.enqueue(2)

    assert (inside.status, inside.id, inside.differs) == (Answer.DEDUPLICATED, first.id, True)
    assert (after.status, after.id) == (Answer.RESUBMITTED, first.id)
    assert shop.ask("select payload, generation, resubmits from fencepost.job") == [({"order_id": 2}, 1, 1)]


@pytest.mark.spec("Q3")
def test_a_window_of_zero_deduplicates_nothing(shop: Shop) -> None:
    shop.receipt.using(job_id="a", dedup_window=0).enqueue(1)
    shop.end("a", "succeed")

    assert shop.receipt.using(job_id="a").enqueue(1).status is Answer.RESUBMITTED


@pytest.mark.spec("Q3", "Q11")
@pytest.mark.parametrize("act", ["fail", "cancel", "skip"])
def test_after_any_other_end_the_id_is_free_at_once_and_the_row_is_the_same(shop: Shop, act: str) -> None:
    """UNQ-5: the new arguments replace the old, the counters start again, the history stays."""
    receipt = shop.receipt.using(job_id="receipt:7", unique_key="order:7")
    first = receipt.enqueue(7)
    shop.end("receipt:7", act)

    again = receipt.enqueue(8)

    assert (again.status, again.id, again.is_new) == (Answer.RESUBMITTED, first.id, True)
    job = shop.app.client.job("receipt:7")
    assert job is not None
    assert (job.state, job.attempts, job.run_count, job.resubmits) == ("queued", 0, 1, 1)
    assert job.payload == {"order_id": 8}
    assert job.generation == 0
    assert shop.is_consistent()


@pytest.mark.spec("Q4", "Q11")
def test_a_held_key_skips_with_the_name_of_its_holder_and_makes_no_row(shop: Shop) -> None:
    """STK-7: and the key is free when its holder has ended."""
    holder = shop.receipt.using(job_id="first", unique_key="order:7").enqueue(7)

    named = shop.receipt.using(job_id="second", unique_key="order:7").enqueue(7)
    unnamed = shop.receipt.using(unique_key="order:7").enqueue(7)
    other_task = shop.report.using(unique_key="order:7").enqueue("daily")

    assert (named.status, named.job_id, named.holder, named.id) == (Answer.SKIPPED, "second", "first", holder.id)
    assert (unnamed.status, unnamed.holder) == (Answer.SKIPPED, "first")
    assert (other_task.status, other_task.holder) == (Answer.CREATED, None)
    shop.end("first", "succeed")
    assert shop.receipt.using(job_id="second", unique_key="order:7").enqueue(7).status is Answer.CREATED
    assert shop.count() == 3


@pytest.mark.spec("Q4", "Q3")
def test_a_resubmission_whose_key_is_held_is_skipped_and_changes_nothing(shop: Shop) -> None:
    shop.receipt.using(job_id="old", unique_key="k").enqueue(1)
    shop.end("old", "fail")
    shop.receipt.using(job_id="new", unique_key="k").enqueue(2)

    answer = shop.receipt.using(job_id="old", unique_key="k").enqueue(3)

    assert (answer.status, answer.holder) == (Answer.SKIPPED, "new")
    assert shop.payload("old") == {"order_id": 1}
    assert shop.one("select state from fencepost.jobs where job_id = 'old'") == "failed"


@pytest.mark.spec("Q4")
@pytest.mark.parametrize(
    ("one", "two"), [("ab:c", "a:bc"), ("a", "A"), ("caf\u00e9", "cafe\u0301"), ("x" * 511 + "y", "x" * 511 + "z")]
)
def test_keys_are_compared_as_they_are(shop: Shop, one: str, two: str) -> None:
    """UNQ-6, UNQ-8: no hash, no folding, no cutting: different text is a different key."""
    made = [shop.receipt.using(unique_key=key).enqueue(1).status for key in (one, two, one)]

    assert made == [Answer.CREATED, Answer.CREATED, Answer.SKIPPED]


@pytest.mark.spec("L7", "Q4", "Q11")
def test_a_doubtful_job_keeps_its_id_and_its_key(shop: Shop) -> None:
    first = shop.receipt.using(job_id="pay:7", unique_key="order:7").enqueue(7)
    shop.end("pay:7", "doubt")

    by_id = shop.receipt.using(job_id="pay:7", unique_key="order:7").enqueue(7)
    by_key = shop.receipt.using(job_id="pay:8", unique_key="order:7").enqueue(7)

    assert (by_id.status, by_id.id, by_id.is_new) == (Answer.IN_DOUBT, first.id, False)
    assert (by_key.status, by_key.holder) == (Answer.SKIPPED, "pay:7")
    assert shop.count() == 1


@pytest.mark.spec("Q11")
def test_no_answer_aborts_the_callers_transaction(shop: Shop) -> None:
    """Each kind of duplicate once, and the business write before and after them commits."""
    shop.ask("create table orders (id int)")
    for job_id, act in (("done", "succeed"), ("failed", "fail"), ("doubt", "doubt")):
        shop.receipt.using(job_id=job_id).enqueue(1)
        shop.end(job_id, act)
    shop.receipt.using(job_id="known", unique_key="k").enqueue(1)

    with shop.tx() as conn:
        conn.execute("insert into orders values (1)")
        send = shop.receipt.using(tx=conn)
        answers = [send.using(job_id=job_id).enqueue(1).status for job_id in ("known", "done", "failed", "doubt")]
        answers.append(send.using(unique_key="k").enqueue(1).status)
        conn.execute("insert into orders values (2)")

    assert answers == [Answer.EXISTS, Answer.DEDUPLICATED, Answer.RESUBMITTED, Answer.IN_DOUBT, Answer.SKIPPED]
    assert shop.ask("select id from orders") == [(1,), (2,)]
    assert shop.is_consistent()


@pytest.mark.spec("Q3", "Q5", "Q11")
def test_duplicates_inside_one_batch_are_answered_by_position(shop: Shop) -> None:
    """UNQ-9: the bulk path knows what the single one knows."""
    send = shop.receipt
    shop.receipt.using(job_id="known", unique_key="held").enqueue(0)
    jobs = [
        send.using(job_id="a").new(1),
        send.using(job_id="known").new(0),
        send.using(job_id="a").new(1),
        send.using(job_id="a").new(2),
        send.using(job_id="b", unique_key="k").new(3),
        send.using(job_id="c", unique_key="k").new(4),
        send.using(unique_key="held").new(5),
        send.new(6),
    ]

    answers = shop.app.enqueue_many(jobs)

    assert [(one.status.value, one.differs, one.holder) for one in answers] == [
        ("created", False, None),
        ("exists", False, None),
        ("exists", False, None),
        ("exists", True, None),
        ("created", False, None),
        ("skipped", False, "b"),
        ("skipped", False, "known"),
        ("created", False, None),
    ]
    assert answers[0].id == answers[2].id == answers[3].id
    assert shop.payload("a") == {"order_id": 1}
    assert shop.count() == 4
    assert shop.is_consistent()


@pytest.mark.spec("Q3")
def test_jobs_without_an_id_get_different_ones_that_rise(shop: Shop) -> None:
    answers = shop.app.enqueue_many(shop.receipt.new(n) for n in range(100))

    assert len({one.job_id for one in answers}) == 100
    assert all(one.status is Answer.CREATED for one in answers)
    assert shop.job_ids() == [one.job_id for one in answers]


@pytest.mark.spec("Q4", "Q5", "Q11")
def test_of_several_jobs_with_one_key_in_one_call_the_first_is_made(shop: Shop) -> None:
    """Whatever their ids: made here they are random, and the arguments that survive must not be a matter of luck."""
    with_ids = shop.app.enqueue_many([shop.receipt.using(job_id=x, unique_key="k").new(1) for x in "cab"])
    keys = [f"k{n % 20}" for n in range(60)]
    without = shop.app.enqueue_many([shop.receipt.using(unique_key=key).new(n) for n, key in enumerate(keys)])

    assert [(one.status, one.holder) for one in with_ids] == [
        (Answer.CREATED, None),
        (Answer.SKIPPED, "c"),
        (Answer.SKIPPED, "c"),
    ]
    assert [one.status for one in without] == [Answer.CREATED] * 20 + [Answer.SKIPPED] * 40
    assert [one.holder for one in without[20:]] == [one.job_id for one in without[:20]] * 2
    assert shop.is_consistent()
