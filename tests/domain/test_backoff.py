"""Waits between attempts: the default curve, its spread, and what a hostile or huge attempt cannot do to it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.steady import STEADY
from fencepost.domain.backoff import DEFAULT, Exponential, curve, delay_for
from fencepost.domain.limits import LEAST_BACKOFF_S, LONGEST_BACKOFF_S
from fencepost.domain.policy import RetryPolicy
from fencepost.errors import UsageError

SPREAD = 0.2
attempts = st.integers(1, 32_000) | st.integers(1, 10**9) | st.integers(-(10**20), 10**20)
seeds = st.integers(0, 2**32)


class Edge(random.Random):
    """Chance at one end of the range."""

    def __init__(self, share: float) -> None:
        super().__init__(0)
        self.share = share

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.share


@pytest.mark.spec("R2")
def test_the_default_waits_30_seconds_then_2_10_and_30_minutes_and_stays_there() -> None:
    policy = RetryPolicy()

    waits = [policy.wait(attempt) for attempt in range(1, 8)]

    assert waits == [30, 120, 600, 1800, 1800, 1800, 1800]
    assert policy.max_attempts == 5
    assert policy.jitter == SPREAD


@pytest.mark.spec("R2")
def test_the_fallback_of_a_broken_function_is_the_default_curve() -> None:
    assert list(DEFAULT) == [RetryPolicy().wait(attempt) for attempt in (1, 2, 3, 4)]


@pytest.mark.spec("R2")
@pytest.mark.parametrize(("share", "factor"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_the_spread_reaches_20_percent_to_either_side(share: float, factor: float) -> None:
    policy = RetryPolicy()

    delays = [delay_for(policy.wait, attempt, policy.jitter, Edge(share)) for attempt in (1, 2, 3, 4, 5)]

    assert delays == pytest.approx([factor * wait for wait in (30, 120, 600, 1800, 1800)])


@pytest.mark.spec("R2")
@STEADY
@given(attempts, seeds)
def test_a_default_wait_never_leaves_its_20_percent(attempt: int, seed: int) -> None:
    policy = RetryPolicy()

    delay = delay_for(policy.wait, attempt, policy.jitter, random.Random(seed))

    base = (30, 120, 600, 1800)[min(max(attempt, 1), 4) - 1]
    assert 0.8 * base <= delay <= 1.2 * base


@pytest.mark.spec("R2")
def test_those_who_failed_together_do_not_come_back_together() -> None:
    rng = random.Random(7)

    delays = {round(delay_for(RetryPolicy().wait, 1, SPREAD, rng), 3) for _ in range(200)}

    assert len(delays) > 150
    assert max(delays) - min(delays) > 30 * 0.35


@pytest.mark.spec("R2")
@STEADY
@given(
    base=st.floats(LEAST_BACKOFF_S, 3600),
    factor=st.floats(1, 1000),
    over=st.floats(1, 1e6),
    attempt=attempts,
)
def test_an_exponential_wait_is_bounded_whatever_the_attempt(
    base: float, factor: float, over: float, attempt: int
) -> None:
    """RTR-1: base 5, factor 5 at attempt 17 was a date that no database holds."""
    cap = min(base * over, LONGEST_BACKOFF_S)
    wait = Exponential(base, factor, cap)

    found = wait(attempt)

    assert base * 0.999 <= found <= cap
    assert wait(attempt) <= wait(max(attempt, 1) + 1)


@pytest.mark.spec("R2")
@pytest.mark.parametrize("attempt", [17, 100, 10**6, 10**400])
def test_a_huge_attempt_waits_for_the_cap(attempt: int) -> None:
    """RTR-1."""
    assert Exponential(5, 5, 3600)(attempt) == 3600
    assert Exponential("1ms", 1000, "365d")(attempt) == LONGEST_BACKOFF_S
    assert Exponential(30, 1, 1800)(attempt) == 30


def test_an_exponential_grows_by_its_factor() -> None:
    assert [Exponential()(attempt) for attempt in range(1, 6)] == [30, 120, 480, 1800, 1800]
    assert Exponential(1, 2, 10)(0) == 1
    assert Exponential(1, 1.0000001, 10)(10**12) == pytest.approx(10)


def raises(attempt: int) -> float:
    raise RuntimeError(attempt)


@pytest.mark.spec("R2")
@pytest.mark.parametrize(
    "answer",
    [
        raises,
        lambda _: float("nan"),
        lambda _: float("inf"),
        lambda _: -1.0,
        lambda _: None,
        lambda _: "soon",
        lambda _: 10**400,
        lambda a: 1 / (a - a),
    ],
)
def test_a_broken_function_gets_the_default_curve(answer: Any) -> None:
    """A retry is neither lost to it nor comes at once."""
    delays = [delay_for(answer, attempt, 0.0, random.Random(1)) for attempt in (-3, 1, 2, 3, 4, 5, 10**9)]

    assert delays == [30, 30, 120, 600, 1800, 1800, 1800]


@pytest.mark.spec("R2")
@STEADY
@given(st.floats(), st.floats(0, 0.99), attempts, seeds)
def test_whatever_a_function_answers_the_delay_is_never_0_and_at_most_a_year(
    answer: float, jitter: float, attempt: int, seed: int
) -> None:
    delay = delay_for(lambda _: answer, attempt, jitter, random.Random(seed))

    assert LEAST_BACKOFF_S <= delay <= LONGEST_BACKOFF_S


@pytest.mark.parametrize(
    ("written", "waits"),
    [
        ("30s, 2m", [30, 120, 120]),
        ("5", [5, 5, 5]),
        ([1, "2m", 3.5], [1, 120, 3.5]),
        ((10,), [10, 10, 10]),
        ("1s,,2s,", [1, 2, 2]),
        (Exponential(1, 2, 60), [1, 2, 4]),
        (lambda attempt: attempt * 10.0, [10, 20, 30]),
    ],
)
def test_a_backoff_may_be_written_in_four_ways(written: Any, waits: list[float]) -> None:
    assert [curve(written)(attempt) for attempt in (1, 2, 3)] == waits


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "backoff must list 1 to 100 waits"),
        ([], "backoff must list 1 to 100 waits"),
        ([0], "backoff must list 1 to 100 waits between 1 ms and 365 days"),
        ("0s", "backoff must list 1 to 100 waits"),
        ("366d", "backoff must list 1 to 100 waits"),
        ([1] * 101, "backoff must list 1 to 100 waits"),
        (["soon"], "backoff: a duration must be seconds or text such as"),
        ("30s; 2m", "backoff: a duration must be"),
        ([True], "backoff: a duration must be"),
        (30, "backoff must be text such as '30s, 2m'.*, not int"),
        (None, "backoff must be text.*, not NoneType"),
        (b"30s", "backoff must be text.*, not bytes"),
        ({1: 2}, "backoff must be text.*, not dict"),
    ],
)
def test_what_is_no_backoff_is_refused_by_name(written: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        curve(written)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base": 0}, "Exponential base must lie between 1 ms and 365 days"),
        ({"base": "soon"}, "Exponential base: a duration must be"),
        ({"cap": "400d"}, "Exponential cap must lie between"),
        ({"base": 60, "cap": 30}, "Exponential cap must be at least base"),
        ({"factor": 0.5}, "Exponential factor must be a number from 1 to 1000, not 0.5"),
        ({"factor": 1001}, "Exponential factor must be"),
        ({"factor": float("nan")}, "Exponential factor must be"),
        ({"factor": True}, "Exponential factor must be"),
        ({"factor": "2"}, "Exponential factor must be"),
    ],
)
def test_an_exponential_that_cannot_be_is_refused_by_name(fields: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        Exponential(**fields)
