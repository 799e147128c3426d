"""What a handler raises to steer its own job, from the exception to the proposal."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from domain.deciding import FIRST, NOW, failure, proposed
from fencepost.domain.classify import Classifier
from fencepost.domain.control import (
    Cancelled,
    Control,
    Delay,
    InDoubt,
    Permanent,
    RateLimited,
    RetryLater,
    Skip,
    Snooze,
    seconds_of,
)
from fencepost.domain.failure import RESERVED, ErrorClass, Failure, usable_code
from fencepost.domain.outcome import Raised
from fencepost.domain.policy import TaskPolicy
from fencepost.errors import FencepostError, UsageError


def told(error: BaseException) -> Failure:
    return Classifier().classify(error, NOW)


@pytest.mark.spec("R1", "R3", "R4", "L6", "L7")
@pytest.mark.parametrize(
    ("error", "code", "act", "delay_s"),
    [
        (RetryLater(), "RETRY_LATER", "retry", 30),
        (RateLimited(20), "RATE_LIMITED", "snooze", 20),
        (RateLimited("20"), "RATE_LIMITED", "snooze", 20),
        (RateLimited(timedelta(minutes=2)), "RATE_LIMITED", "snooze", 120),
        (RateLimited(NOW + timedelta(seconds=9)), "RATE_LIMITED", "snooze", 9),
        (RateLimited(), "RATE_LIMITED", "snooze", 30),
        (RateLimited("soon"), "RATE_LIMITED", "snooze", 30),
        (RateLimited(-1), "RATE_LIMITED", "snooze", 30),
        (Permanent("no such card"), "PERMANENT", "fail", 0),
        (Permanent("no such card", code="CARD_GONE"), "CARD_GONE", "fail", 0),
        (Skip("deleted"), "SKIPPED", "skip", 0),
        (InDoubt("timeout after send"), "IN_DOUBT", "doubt", 0),
    ],
    ids=repr,
)
def test_what_is_raised_becomes_a_proposal(error: Control, code: str, act: str, delay_s: float) -> None:
    settlement = proposed(Raised(told(error)))

    assert (settlement.act, settlement.code, settlement.delay_s) == (act, code, delay_s)
    assert error.text in str(settlement.error)


@pytest.mark.spec("R3", "R6")
@pytest.mark.parametrize(
    ("error", "last"),
    [(RetryLater(), "fail"), (RateLimited(9), "snooze"), (Permanent(), "fail"), (Skip(), "skip"), (InDoubt(), "doubt")],
    ids=repr,
)
def test_only_a_retry_needs_an_attempt(error: Control, last: str) -> None:
    assert proposed(Raised(told(error)), replace(FIRST, attempts=5)).act == last


@pytest.mark.spec("R2")
def test_a_retry_at_its_own_time_waits_just_so() -> None:
    """The handler's word goes before the provider's and the task's; 0 is "at once", and an attempt is spent."""
    kind = failure(ErrorClass.RETRYABLE, asked=50).failure

    assert [proposed(Raised(kind, delay)).delay_s for delay in (7.0, 0.0)] == [7, 0]
    assert [proposed(Raised(kind, delay)).act for delay in (7.0, 0.0)] == ["retry", "retry"]


@pytest.mark.spec("R6")
def test_three_crashes_are_the_bound_unless_a_task_says_otherwise() -> None:
    assert TaskPolicy(name="a").max_crashes == 3
    assert TaskPolicy(name="a", max_crashes=1).max_crashes == 1
    with pytest.raises(UsageError, match="^task 'a': max_crashes must be between 1 and"):
        TaskPolicy(name="a", max_crashes=0)


@pytest.mark.spec("W8")
def test_cancelled_is_no_error_that_a_retry_would_mend() -> None:
    failed = told(Cancelled("by hand"))

    assert (failed.code, failed.kind) == ("CANCELLED", ErrorClass.UNKNOWN)


@pytest.mark.spec("R1")
@pytest.mark.parametrize("kind", [RetryLater, Permanent, Skip, InDoubt, Cancelled, RateLimited])
@pytest.mark.parametrize("code", [*sorted(RESERVED), "", " X", "a\nb", "x" * 65, "\ud800", 7])
def test_a_code_that_nobody_may_give_is_replaced_by_the_classs_own(kind: Any, code: Any) -> None:
    """A wrong label must not turn a doubt into a retry."""
    error = kind(code=code)

    assert error.code == kind.code
    assert told(error).code == kind.code


@pytest.mark.spec("R1")
@pytest.mark.parametrize("code", [*sorted(RESERVED), "", "a\0b", "x" * 65, None, 7])
def test_a_subclass_that_claims_such_a_code_is_refused(code: Any) -> None:
    with pytest.raises(UsageError, match=r"^Mine\.code: .* is no code or one of fencepost's own; choose another$"):
        type("Mine", (Permanent,), {"code": code})


def test_the_codes_of_the_controls_may_be_given() -> None:
    assert all(usable_code(one.code) for one in (RetryLater, Snooze, RateLimited, Permanent, Skip, InDoubt, Cancelled))


@pytest.mark.spec("R1", "L7")
def test_a_subclass_need_not_call_its_parent() -> None:
    class Doubt(InDoubt):
        code = "SENT_MAYBE"

        def __init__(self, order: int) -> None:
            self.order = order

    class Later(RetryLater):
        def __init__(self) -> None:
            pass

    class Slow(RateLimited):
        def __init__(self) -> None:
            pass

    assert (told(Doubt(7)).code, told(Doubt(7)).kind) == ("SENT_MAYBE", ErrorClass.IN_DOUBT)
    assert (Later().delay_s, Later().text, told(Later()).kind) == (None, "", ErrorClass.RETRYABLE)
    assert (told(Slow()).kind, told(Slow()).retry_after_s) == (ErrorClass.RATE_LIMITED, None)


@pytest.mark.spec("R1", "L7")
def test_a_code_that_was_spoiled_later_does_not_make_a_doubt_a_retry() -> None:
    error = InDoubt("sent?")
    error.code = "STALE"

    assert (told(error).code, told(error).kind) == ("IN_DOUBT", ErrorClass.IN_DOUBT)


@pytest.mark.parametrize(
    "delay", [-1, -0.001, float("nan"), timedelta(seconds=-1), "soon", None, [], 10**400, object()]
)
def test_a_snooze_needs_zero_or_more_seconds(delay: Any) -> None:
    with pytest.raises(ValueError, match="^delay must be "):
        Snooze(delay)


@pytest.mark.parametrize(
    ("delay", "meant"), [(0, 0.0), (1.5, 1.5), (timedelta(minutes=5), 300.0), ("5m", 300.0), ("30", 30.0)]
)
def test_a_delay_is_written_as_everywhere_else(delay: Delay, meant: float) -> None:
    assert seconds_of(delay, "delay") == meant
    assert Snooze(delay).delay_s == RetryLater(delay).delay_s == meant


@pytest.mark.parametrize(
    "error",
    [RetryLater(5), Snooze(5), RateLimited("20"), Permanent("x", code="Y"), Skip("x"), InDoubt(), Cancelled("x")],
    ids=repr,
)
def test_a_control_survives_the_way_between_processes(error: Control) -> None:
    """PSN-5: a process pool in a handler would break on one that cannot be rebuilt."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert vars(again) == vars(error)
        assert str(again) == str(error)


def test_steering_is_not_caught_with_the_errors_of_fencepost() -> None:
    assert issubclass(Control, Exception)
    assert not issubclass(Control, FencepostError)
