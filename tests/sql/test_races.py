"""Races inside the functions, each stopped at the one line where it lies: a story of two parties."""

from __future__ import annotations

import pytest

from sql.breakpoints import Breakpoints, Other
from waiting import eventually

CLAIM = "select id, run_count from fencepost.claim_v1({token}, '{{q}}', '{{10}}') where id is not null"
SETTLE = "select answer, state from fencepost.settle_v1({token}, '{{{id}}}', '{{{rc}}}', '{{{act}}}')"
STALE = "update fencepost.running set claimed_at = now() - interval '1 h', heartbeat_at = null"
RESCUE = "select id, state from fencepost.rescue_v1(10)"
BEAT = "select answer from fencepost.heartbeat_v1('{1}', '{1}', '{1}')"


def enqueue(job_id: str, key: str | None = None) -> str:
    quoted = "null" if key is None else f"'{key}'"
    return f"select answer from fencepost.enqueue('t', '{{}}', '{job_id}', p_queue => 'q', p_unique_key => {quoted})"


def settle(token: int, rc: int = 1, act: str = "succeed", id_: int = 1) -> str:
    return SETTLE.format(token=token, id=id_, rc=rc, act=act)


def clean(b: Breakpoints) -> None:
    assert b.ask("select * from fencepost.fsck") == []


@pytest.mark.spec("C1", "C3")
def test_two_claims_of_one_row_have_one_winner(breakpoints: Breakpoints) -> None:
    breakpoints.ask(enqueue("j"))

    with breakpoints.stopped("claim.chosen", CLAIM.format(token=1)) as first:
        second = breakpoints.ask(CLAIM.format(token=2))

    assert second == []
    assert first.rows == [(1, 1)]
    clean(breakpoints)


@pytest.mark.spec("C3", "C6")
def test_a_settle_that_is_being_written_is_not_rescued(breakpoints: Breakpoints) -> None:
    """The lease is stale by the clock, but its outcome already holds the row."""
    breakpoints.ask(enqueue("j"))
    breakpoints.ask(CLAIM.format(token=1))
    breakpoints.ask(STALE)

    with breakpoints.stopped("settle.moved", settle(1)) as outcome:
        rescued = breakpoints.ask(RESCUE)
        beaten = breakpoints.ask(BEAT)

    assert (rescued, beaten) == ([], [("busy",)])
    assert outcome.rows == [("accepted", "succeeded")]
    clean(breakpoints)


@pytest.mark.spec("C3", "C6")
def test_a_beat_that_is_being_written_saves_the_lease(breakpoints: Breakpoints) -> None:
    breakpoints.ask(enqueue("j"))
    breakpoints.ask(CLAIM.format(token=1))
    breakpoints.ask(STALE)

    with breakpoints.stopped("beat.written", BEAT) as beat:
        during = breakpoints.ask(RESCUE)

    assert beat.rows == [("ok",)]
    assert during == breakpoints.ask(RESCUE) == []


@pytest.mark.spec("C3", "C6")
def test_a_beat_that_meets_its_own_rescue_is_not_told_ok(breakpoints: Breakpoints) -> None:
    """The lease was found stale and is held for its end: whoever was told ok now would run beside the next run."""
    breakpoints.ask(enqueue("j"))
    breakpoints.ask(CLAIM.format(token=1))
    breakpoints.ask(STALE)

    with breakpoints.stopped("rescue.chosen", RESCUE) as rescue:
        during = breakpoints.ask(BEAT)

    assert during == [("busy",)]
    assert rescue.rows == [(1, "queued")]
    assert breakpoints.ask(BEAT) == [("lost",)]
    clean(breakpoints)


@pytest.mark.spec("C3", "W6")
def test_an_outcome_that_meets_its_own_rescue_is_refused(breakpoints: Breakpoints) -> None:
    breakpoints.ask(enqueue("j"))
    breakpoints.ask(CLAIM.format(token=1))
    breakpoints.ask(STALE)

    with breakpoints.stopped("rescue.chosen", RESCUE) as rescue:
        late = breakpoints.ask(settle(1))  # waits for the row for lock_timeout

    assert late == [("busy", None)]
    assert rescue.rows == [(1, "queued")]
    assert breakpoints.ask(settle(1)) == [("lost", None)]
    clean(breakpoints)


@pytest.mark.spec("Q3", "Q11")
def test_a_job_that_ends_between_look_and_act_is_looked_at_again(breakpoints: Breakpoints) -> None:
    """A3: the look said `again` (an ended job), another caller revives it first."""
    breakpoints.ask(enqueue("j", "K"))
    breakpoints.ask(CLAIM.format(token=1))
    breakpoints.ask(settle(1, act="fail"))

    with breakpoints.stopped("enqueue.looked", enqueue("j", "K")) as call:
        winner = breakpoints.ask(enqueue("j", "K"))

    assert winner == [("resubmitted",)]
    assert call.rows == [("exists",)]
    clean(breakpoints)


@pytest.mark.spec("Q4", "Q11")
def test_a_key_that_is_taken_between_look_and_act_skips(breakpoints: Breakpoints) -> None:
    with breakpoints.stopped("enqueue.looked", enqueue("j", "K")) as call:
        breakpoints.ask(enqueue("other", "K"))

    assert call.rows == [("skipped",)]
    clean(breakpoints)


@pytest.mark.spec("Q3", "Q11")
def test_a_job_that_is_purged_between_look_and_act_is_new(breakpoints: Breakpoints) -> None:
    """A3: the row that conflicted is gone; the answer is created, never nothing."""
    breakpoints.ask(enqueue("j", "K"))
    breakpoints.ask("select fencepost.cancel_v1('j')")

    with breakpoints.stopped("enqueue.looked", enqueue("j", "K")) as call:
        breakpoints.ask("update fencepost.outcome set purge_at = now()")
        assert breakpoints.ask("select fencepost.purge_v1(10)") == [(1,)]

    assert call.rows == [("created",)]
    clean(breakpoints)


@pytest.mark.spec("Q4", "Q5")
def test_a_batch_that_loses_a_key_gives_all_back_before_it_looks_again(breakpoints: Breakpoints) -> None:
    """It stands with K0, K2, K4 just taken when a rival of one of its job_ids is already there: nothing is half done."""
    breakpoints.ask(enqueue("b2"))  # the job_id without its key: the one thing that a batch cannot see in the keys
    batch = (
        "select answer from fencepost.enqueue_v1('{b0,b2,b4}', '{t,t,t}', array['{}', '{}', '{}'], "
        "p_unique_key => '{K0,K2,K4}')"
    )
    with breakpoints.stopped("enqueue.looked", enqueue("c", "K4")) as rival:
        answers = breakpoints.ask(batch)

    assert answers == [("created",), ("exists",), ("created",)]
    assert rival.rows == [("skipped",)]
    assert breakpoints.ask("select key from fencepost.held order by key") == [("K0",), ("K4",)]
    clean(breakpoints)


@pytest.mark.spec("Q5", "Q11")
def test_two_batches_with_the_same_keys_wait_and_do_not_deadlock(breakpoints: Breakpoints) -> None:
    """In opposite orders of input: the keys are taken in their own order."""
    batch = (
        "select answer from fencepost.enqueue_v1(array['{0}1', '{0}2'], '{{t,t}}', array['{{}}', '{{}}'], "
        "p_unique_key => '{1}')"
    )
    second = Other(breakpoints.dsn)
    with breakpoints.stopped("enqueue.keys_taken", batch.format("a", "{K1,K2}")) as first:
        second.begin(batch.format("b", "{K2,K1}"))
        eventually(second.waits, within=5)

    assert first.rows == [("created",)] * 2
    assert second.end() == [("skipped",)] * 2
    clean(breakpoints)


@pytest.mark.spec("Q4", "Q5", "Q11")
def test_two_callers_with_one_key_twice_each_do_not_deadlock_and_the_first_of_a_call_is_the_one(
    breakpoints: Breakpoints,
) -> None:
    """In opposite orders, which each call keeps among its jobs of one key: the key is all that they wait for."""
    batch = (
        "select answer, job_id from fencepost.enqueue_v1(array['{0}', '{1}'], '{{t,t}}', array['{{}}', '{{}}'], "
        "p_unique_key => '{{K,K}}')"
    )
    second = Other(breakpoints.dsn)
    with breakpoints.stopped("enqueue.keys_taken", batch.format("b", "a")) as first:
        second.begin(batch.format("a", "b"))
        eventually(second.waits, within=5)

    made, known = sorted([first.rows, second.end()])  # whoever got the key when the first had given it back
    assert [answer for answer, _ in made] == ["created", "skipped"]
    assert sorted(known) == sorted([("exists", made[0][1]), ("skipped", made[1][1])])
    clean(breakpoints)


@pytest.mark.spec("R5")
def test_an_operators_retry_loses_against_a_resubmission(breakpoints: Breakpoints) -> None:
    breakpoints.ask(enqueue("j", "K"))
    breakpoints.ask("select fencepost.cancel_v1('j')")

    with breakpoints.stopped("resubmit.looked", "select answer from fencepost.resubmit_v1('j', 'me')") as retry:
        breakpoints.ask(enqueue("j", "K"))

    assert retry.rows == [("active",)]
    assert breakpoints.ask("select resubmits, manual from fencepost.job") == [(1, 0)]
    clean(breakpoints)


@pytest.mark.spec("R5", "Q4")
def test_a_key_that_is_taken_under_a_retry_changes_nothing(breakpoints: Breakpoints) -> None:
    """STK-3: the outcome had been taken away already; it is put back."""
    breakpoints.ask(enqueue("j", "K"))
    breakpoints.ask("select fencepost.cancel_v1('j')")

    with breakpoints.stopped(
        "revive.outcome_taken", "select answer, holder from fencepost.resubmit_v1('j', 'me')"
    ) as retry:
        breakpoints.ask(enqueue("other", "K"))

    assert retry.rows == [("skipped", "other")]
    assert breakpoints.ask("select state from fencepost.jobs where job_id = 'j'") == [("cancelled",)]
    clean(breakpoints)


@pytest.mark.spec("W8")
def test_a_cancel_finds_the_job_that_moved_under_it(breakpoints: Breakpoints) -> None:
    """It was queued at no look: claimed before the first, handed back before the second."""
    breakpoints.ask(enqueue("j"))
    breakpoints.ask(CLAIM.format(token=1))

    with breakpoints.stopped("cancel.not_queued", "select fencepost.cancel_v1('j')") as cancel:
        breakpoints.ask(settle(1, act="release"))

    assert cancel.rows == [("cancelled",)]
    clean(breakpoints)


@pytest.mark.spec("W8")
def test_a_cancel_request_that_meets_an_outcome_does_not_wait(breakpoints: Breakpoints) -> None:
    breakpoints.ask(enqueue("j"))
    breakpoints.ask(CLAIM.format(token=1))

    with breakpoints.stopped("settle.moved", settle(1)) as outcome:
        asked = breakpoints.ask("select fencepost.cancel_v1('j')")

    assert asked == [("busy",)]
    assert outcome.rows == [("accepted", "succeeded")]


@pytest.mark.spec("C7")
def test_a_row_that_is_parked_while_a_slot_comes_back_is_woken(breakpoints: Breakpoints) -> None:
    """A13: the claim holds the gate and parks; the settle waits for the gate, and looks only then."""
    for job_id in ("one", "two"):
        breakpoints.ask(f"select fencepost.enqueue('t', '{{}}', '{job_id}', p_queue => 'q', p_concurrency_key => 'G')")
    breakpoints.ask("select * from fencepost.claim_v1(1, '{q}', '{1}')")
    outcome = Other(breakpoints.dsn)

    with breakpoints.stopped("sift.gates_locked", CLAIM.format(token=2)) as parks:
        outcome.begin(settle(1))
        eventually(outcome.waits, within=5)

    assert parks.rows == []
    assert outcome.end() == [("accepted", "succeeded")]
    assert breakpoints.ask(CLAIM.format(token=3)) == [(2, 1)]
    clean(breakpoints)


@pytest.mark.spec("C7")
def test_a_completion_that_cannot_have_the_gate_leaves_the_slot_for_later(breakpoints: Breakpoints) -> None:
    for job_id in ("one", "two"):
        breakpoints.ask(f"select fencepost.enqueue('t', '{{}}', '{job_id}', p_queue => 'q', p_concurrency_key => 'G')")
    breakpoints.ask("select * from fencepost.claim_v1(1, '{q}', '{1}')")

    with breakpoints.stopped("sift.gates_locked", CLAIM.format(token=2)) as parks:
        outcome = breakpoints.ask(settle(1))  # after lock_timeout it is written without the gate

    assert outcome == [("accepted", "succeeded")]
    assert parks.rows == []
    clean(breakpoints)
    breakpoints.ask("select fencepost.promote_v1(10)")
    assert breakpoints.ask(CLAIM.format(token=3)) == [(2, 1)]
    clean(breakpoints)


@pytest.mark.spec("Q3", "C3")
def test_a_job_that_is_purged_after_the_look_of_its_batch_comes_back_under_an_id_of_its_own(
    breakpoints: Breakpoints,
) -> None:
    """An id that came again would start its run counts again, under the old job's audit: (id, run_count) is for one run."""
    for job_id in ("a", "b"):
        breakpoints.ask(enqueue(job_id))
        breakpoints.ask(f"select fencepost.cancel_v1('{job_id}')")
    batch = "select answer from fencepost.enqueue_v1('{a,b}', '{t,t}', array['{}', '{}'])"

    with breakpoints.stopped("enqueue.looked", batch) as call:  # at a; the batch has looked at b too
        breakpoints.ask("update fencepost.outcome set purge_at = now() where id = 2")
        assert breakpoints.ask("select fencepost.purge_v1(10)") == [(1,)]

    assert call.rows == [("resubmitted",), ("created",)]
    assert breakpoints.ask("select job_id from fencepost.job where id <= 2") == [("a",)]
    clean(breakpoints)


@pytest.mark.spec("Q3", "C3")
def test_a_job_that_was_run_again_meanwhile_is_not_revived_as_it_was(breakpoints: Breakpoints) -> None:
    """The look saw the end of its first run; by the act it has ended a second time, and the third run must be counted so."""
    breakpoints.ask(enqueue("j"))
    breakpoints.ask(CLAIM.format(token=1))
    breakpoints.ask(settle(1, act="fail"))

    with breakpoints.stopped("enqueue.looked", enqueue("j")) as call:
        breakpoints.ask(enqueue("j"))
        breakpoints.ask(CLAIM.format(token=1))
        breakpoints.ask(settle(1, rc=2, act="fail"))

    assert call.rows == [("resubmitted",)]
    assert breakpoints.ask(CLAIM.format(token=1)) == [(1, 3)]
    clean(breakpoints)
