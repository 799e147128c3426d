"""Pauses, bodies that must not run twice, and what holds for every outcome."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.deciding import FIRST, NOW, Run, failure, proposed
from domain.steady import STEADY
from fencepost.domain.decide import decide
from fencepost.domain.failure import LIMIT_CODES, ErrorClass, Failure
from fencepost.domain.limits import CODE_CHARS, ERROR_BYTES, LEAST_PAUSE_S, LONGEST_BACKOFF_S, UNPAID_PAUSES
from fencepost.domain.outcome import (
    ENDS,
    RETURNS,
    Done,
    Doubtful,
    Lost,
    Outcome,
    Raised,
    Released,
    Skipped,
    Snoozed,
    Stopped,
    Unknown,
)  # fmt: skip
from fencepost.domain.policy import RetryPolicy

ONCE = replace(FIRST, at_most_once=True, max_attempts=5)


@pytest.mark.spec("R3", "R6")
def test_a_hundred_pauses_are_unpaid_and_the_next_spends_an_attempt() -> None:
    assert UNPAID_PAUSES == 100

    for outcome in (Snoozed(300), failure(ErrorClass.RATE_LIMITED, asked=300)):
        acts = [proposed(outcome, replace(FIRST, snoozes=n)).act for n in (0, 1, 98, 99, 100, 101, 10**6)]
        assert acts == ["snooze"] * 4 + ["retry"] * 3


@pytest.mark.spec("R3")
def test_an_unpaid_pause_is_free_even_on_the_last_attempt() -> None:
    last = replace(FIRST, attempts=5)

    assert proposed(Snoozed(300), last).act == "snooze"
    assert proposed(failure(ErrorClass.RATE_LIMITED), last).act == "snooze"


@pytest.mark.spec("R3", "R4")
def test_a_paid_pause_without_an_attempt_left_fails_with_the_code_of_the_pause() -> None:
    settlement = proposed(Snoozed(300, text="not yet"), replace(FIRST, attempts=5, snoozes=100))

    assert (settlement.act, settlement.code, settlement.error) == ("fail", "SNOOZED", "not yet")


@pytest.mark.spec("R3")
@pytest.mark.parametrize("kind", [ErrorClass.RETRYABLE, ErrorClass.UNKNOWN, ErrorClass.RATE_LIMITED])
def test_retry_after_sets_the_delay_whatever_the_code(kind: ErrorClass) -> None:
    assert proposed(failure(kind, asked=77)).delay_s == 77


@pytest.mark.spec("R3")
@STEADY
@given(st.floats(0, LONGEST_BACKOFF_S), st.integers(0, 10**6))
def test_nobody_comes_earlier_than_asked_nor_all_at_once(asked: float, seed: int) -> None:
    policy = RetryPolicy()

    delay = proposed(failure(ErrorClass.RATE_LIMITED, asked=asked), policy=policy, seed=seed).delay_s

    assert max(asked, LEAST_PAUSE_S) <= delay <= min(max(asked, LEAST_PAUSE_S) * 1.2, LONGEST_BACKOFF_S)


@pytest.mark.spec("R3")
def test_a_provider_that_says_zero_is_not_asked_again_in_a_tight_loop() -> None:
    """RTR-2."""
    assert proposed(failure(ErrorClass.RATE_LIMITED, asked=0)).delay_s == LEAST_PAUSE_S


@pytest.mark.spec("R2", "R3")
def test_a_pause_without_a_time_waits_by_the_number_of_its_pauses() -> None:
    delays = [
        proposed(failure(ErrorClass.RATE_LIMITED), replace(FIRST, attempts=3, snoozes=n)).delay_s for n in range(5)
    ]

    assert delays == [30, 120, 600, 1800, 1800]


@pytest.mark.spec("W12")
@pytest.mark.parametrize(
    "kind", [ErrorClass.RETRYABLE, ErrorClass.UNKNOWN, ErrorClass.PERMANENT, ErrorClass.RATE_LIMITED]
)
def test_a_body_that_must_not_run_twice_is_not_started_again_by_an_error(kind: ErrorClass) -> None:
    policy = RetryPolicy(codes={"Y": "retry"})

    assert proposed(failure(kind, asked=3), ONCE).act == "fail"
    assert proposed(failure(kind, "Y"), ONCE, policy).act == "fail"


@pytest.mark.spec("W7", "W12")
@pytest.mark.parametrize("code", sorted(LIMIT_CODES))
@pytest.mark.parametrize("kind", [ErrorClass.RETRYABLE, ErrorClass.PERMANENT])
def test_a_body_that_must_not_run_twice_and_was_stopped_from_outside_is_in_doubt(code: str, kind: ErrorClass) -> None:
    assert proposed(failure(kind, code), ONCE).act == "doubt"


@pytest.mark.spec("W12")
def test_only_the_body_itself_may_hand_itself_back() -> None:
    assert proposed(Snoozed(60), ONCE).act == "snooze"
    assert proposed(Snoozed(60), replace(ONCE, snoozes=100)).act == "fail"
    assert proposed(failure(ErrorClass.SKIP), ONCE).act == "skip"
    assert proposed(failure(ErrorClass.IN_DOUBT), ONCE).act == "doubt"


@pytest.mark.parametrize(
    ("given_s", "waited"),
    [
        (-5.0, 0.0),
        (float("nan"), LEAST_PAUSE_S),
        (float("inf"), LONGEST_BACKOFF_S),
        (10**400, LEAST_PAUSE_S),
        ("soon", LEAST_PAUSE_S),
        (None, LEAST_PAUSE_S),
    ],
)
def test_a_delay_that_is_none_is_bounded(given_s: Any, waited: float) -> None:
    assert proposed(Snoozed(given_s)).delay_s == waited


# ------------------------------------------------------------------------------------------------- for every outcome

words = st.text(max_size=50) | st.just("x" * 20_000) | st.just("a\0b\ud800") | st.none()
delays: Any = st.floats() | st.none() | st.just(10**400)
failures = st.builds(
    Failure, code=st.text(max_size=80) | st.sampled_from(sorted(LIMIT_CODES)), kind=st.sampled_from(ErrorClass),
    text=st.text(max_size=50) | st.just("x" * 20_000), retry_after_s=delays,
)  # fmt: skip
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Done), st.builds(Raised, failures, delays), st.builds(Snoozed, st.floats(), st.text(max_size=80), words),
    st.builds(Skipped, st.text(max_size=80), words), st.builds(Stopped, words), st.builds(Doubtful, st.text(), words),
    st.builds(Released, words), st.builds(Lost, words), st.builds(Unknown, words),
)  # fmt: skip
runs = st.builds(
    Run, attempts=st.integers(1, 40_000), max_attempts=st.integers(1, 32_000), snoozes=st.integers(0, 40_000),
    at_most_once=st.booleans(), created_at=st.datetimes(datetime(2000, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)  # fmt: skip
policies = st.builds(
    RetryPolicy, jitter=st.floats(0, 0.99), within=st.none() | st.timedeltas(timedelta(seconds=1), timedelta(365))
)


def _asked_for_now(outcome: Outcome) -> bool:
    """A handler may say "at once"; neither the policy nor a provider can."""
    return isinstance(outcome, Raised | Snoozed) and outcome.delay_s is not None and outcome.delay_s <= 0


@pytest.mark.spec("R2", "R8")
@STEADY
@given(runs, outcomes, policies, st.integers(0, 2**32))
def test_whatever_ends_a_run_the_proposal_can_be_stored(
    run: Run, outcome: Outcome, policy: RetryPolicy, seed: int
) -> None:
    settlement = decide(run, outcome, policy, NOW, random.Random(seed))

    assert settlement.act in ENDS | RETURNS
    assert 0 <= settlement.delay_s <= LONGEST_BACKOFF_S
    assert settlement.act not in ("retry", "snooze") or settlement.delay_s > 0 or _asked_for_now(outcome)
    for stored, limit in ((settlement.error, ERROR_BYTES), (settlement.code, CODE_CHARS)):
        assert stored is None or (stored and "\0" not in stored and len(stored.encode("utf-8")) <= limit)


@pytest.mark.spec("R2")
@STEADY
@given(runs, outcomes, policies, st.integers(0, 2**32))
def test_the_same_arguments_give_the_same_answer(run: Run, outcome: Outcome, policy: RetryPolicy, seed: int) -> None:
    first = decide(run, outcome, policy, NOW, random.Random(seed))

    assert decide(run, outcome, policy, NOW, random.Random(seed)) == first


@pytest.mark.spec("W12")
@STEADY
@given(runs, failures, delays, policies)
def test_no_error_ever_starts_a_body_again_that_must_not_run_twice(
    run: Run, raised: Failure, delay_s: float | None, policy: RetryPolicy
) -> None:
    settlement = decide(replace(run, at_most_once=True), Raised(raised, delay_s), policy, NOW, random.Random(1))

    assert settlement.act in ENDS


@pytest.mark.spec("R4")
@STEADY
@given(runs, failures, policies)
def test_an_attempt_is_never_spent_beyond_the_bound(run: Run, raised: Failure, policy: RetryPolicy) -> None:
    settlement = decide(run, Raised(raised), policy, NOW, random.Random(1))

    assert settlement.act != "retry" or run.attempts < run.max_attempts
    assert settlement.act != "snooze" or run.snoozes < UNPAID_PAUSES
