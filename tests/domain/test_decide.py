"""What becomes of a job when a run ends: proposed in one pure function."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from domain.deciding import EVEN, FIRST, NOW, failure, proposed
from fencepost.domain.decide import decide
from fencepost.domain.failure import FINAL_CODES, ErrorClass
from fencepost.domain.outcome import Done, Doubtful, Lost, Outcome, Released, Skipped, Snoozed, Stopped, Unknown
from fencepost.domain.policy import RetryPolicy

# ------------------------------------------------------------------------------------------------- what ends by itself


@pytest.mark.spec("L1", "L6", "L7", "W3", "W8", "Q8")
@pytest.mark.parametrize(
    ("outcome", "act", "code"),
    [
        (Done('{"n":1}'), "succeed", None),
        (Skipped(), "skip", "SKIPPED"),
        (Skipped("ORDER_GONE", "no such order"), "skip", "ORDER_GONE"),
        (Stopped("cancelled"), "cancel", None),
        (Doubtful(), "doubt", "IN_DOUBT"),
        (Released("shutdown"), "release", None),
        (Lost(), "lost", None),
        (Unknown("no such task"), "park", None),
    ],
)
def test_an_end_is_proposed_as_it_is(outcome: Outcome, act: str, code: str | None) -> None:
    settlement = proposed(outcome, replace(FIRST, attempts=5, snoozes=500))

    assert (settlement.act, settlement.code, settlement.delay_s) == (act, code, 0)
    assert settlement.error == getattr(outcome, "text", None)
    assert settlement.result == getattr(outcome, "result", None)


def test_statistics_come_along_with_every_outcome() -> None:
    outcomes: list[Outcome] = [
        Done(), failure(ErrorClass.RETRYABLE), failure(ErrorClass.PERMANENT), failure(ErrorClass.RATE_LIMITED), Snoozed(9),
        Skipped(), Stopped(), Doubtful(), Released(), Lost(), Unknown(),
    ]  # fmt: skip

    kept = [decide(FIRST, outcome, EVEN, NOW, random.Random(1), '{"steps":1}').stats for outcome in outcomes]

    assert set(kept) == {'{"steps":1}'}


# ------------------------------------------------------------------------------------------------------------ failures


@pytest.mark.spec("R1", "R4")
@pytest.mark.parametrize(
    ("kind", "act"),
    [
        (ErrorClass.RETRYABLE, "retry"),
        (ErrorClass.UNKNOWN, "retry"),
        (ErrorClass.PERMANENT, "fail"),
        (ErrorClass.RATE_LIMITED, "snooze"),
        (ErrorClass.SKIP, "skip"),
        (ErrorClass.IN_DOUBT, "doubt"),
    ],
)
def test_the_class_of_an_error_decides(kind: ErrorClass, act: str) -> None:
    settlement = proposed(failure(kind))

    assert (settlement.act, settlement.code, settlement.error) == (act, "X", "boom")


def test_every_class_has_its_action() -> None:
    assert {proposed(failure(kind)).act for kind in ErrorClass} == {"retry", "fail", "snooze", "skip", "doubt"}


@pytest.mark.spec("R2", "R4")
@pytest.mark.parametrize("kind", [ErrorClass.RETRYABLE, ErrorClass.UNKNOWN])
def test_the_fifth_failed_attempt_is_the_last(kind: ErrorClass) -> None:
    """RTR-3: also when a deploy has lowered the bound below what was spent."""
    acts = [proposed(failure(kind), replace(FIRST, attempts=n)).act for n in (1, 2, 3, 4, 5, 6, 32_000)]

    assert acts == ["retry"] * 4 + ["fail"] * 3


@pytest.mark.spec("R2")
def test_a_retry_waits_by_the_number_of_its_attempt() -> None:
    delays = [
        proposed(failure(ErrorClass.RETRYABLE), replace(FIRST, attempts=n, max_attempts=9)).delay_s for n in range(1, 7)
    ]

    assert delays == [30, 120, 600, 1800, 1800, 1800]


@pytest.mark.spec("R2")
def test_no_retry_begins_after_the_time_budget() -> None:
    policy = RetryPolicy(within="1h", jitter=0)
    young, old = (
        replace(FIRST, created_at=NOW - timedelta(minutes=59)),
        replace(FIRST, created_at=NOW - timedelta(hours=1)),
    )

    assert proposed(failure(ErrorClass.RETRYABLE), young, policy).act == "retry"
    assert proposed(failure(ErrorClass.RETRYABLE), old, policy).act == "fail"
    assert proposed(failure(ErrorClass.RATE_LIMITED, asked=120), young, policy).act == "fail"
    assert proposed(failure(ErrorClass.RATE_LIMITED, asked=30), young, policy).act == "snooze"


@pytest.mark.spec("R1", "R2")
@pytest.mark.parametrize(
    ("said", "act"), [("retry", "retry"), ("fail", "fail"), ("skip", "skip"), ("in_doubt", "doubt")]
)
@pytest.mark.parametrize("kind", list(ErrorClass))
def test_a_task_may_say_what_a_code_means(kind: ErrorClass, said: str, act: str) -> None:
    policy = RetryPolicy(codes={"ENTITY_NOT_FOUND": said}, jitter=0)

    assert proposed(failure(kind, "ENTITY_NOT_FOUND"), policy=policy).act == act
    assert proposed(failure(kind, "ENTITY_NOT_FOUND"), replace(FIRST, attempts=5), policy).act == (
        "fail" if act == "retry" else act
    )


@pytest.mark.spec("R1", "W6")
@pytest.mark.parametrize("code", sorted(FINAL_CODES))
def test_no_policy_changes_a_final_code(code: str) -> None:
    """Smuggled past the check of the policy, as an old pickled one could be."""
    policy = RetryPolicy(jitter=0)
    object.__setattr__(policy, "codes", {code: "retry"})

    assert proposed(failure(ErrorClass.PERMANENT, code), policy=policy).act == "fail"


def test_a_failure_without_a_code_is_counted_as_unknown() -> None:
    assert proposed(failure(ErrorClass.RETRYABLE, "")).code == "UNKNOWN"
