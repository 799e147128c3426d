"""Durations as people write them, and one sentence for whatever is none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.steady import STEADY
from fencepost.domain.durations import UNITS, seconds
from fencepost.domain.limits import LONGEST_S


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0.0),
        (30, 30.0),
        (0.5, 0.5),
        ("30", 30.0),
        ("0.25", 0.25),
        ("250ms", 0.25),
        ("30s", 30.0),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        (" 1 d ", 86_400.0),
        ("1W", 604_800.0),
        ("1.5h", 5400.0),
        ("1w2d3h4m5s6ms", 604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5 + 0.006),
        (timedelta(minutes=2), 120.0),
        (LONGEST_S, LONGEST_S),
        ("3650d", LONGEST_S),
    ],
)
def test_a_duration_is_read(written: Any, meant: float) -> None:
    assert seconds(written) == pytest.approx(meant, abs=1e-9)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "such as '30s'"),
        ("soon", "such as '30s', '2m', '1h30m' or '1d', not 'soon'"),
        ("-5s", "not '-5s'"),
        ("30m1h", "not '30m1h'"),  # units fall, so that a slip such as "1m30h" is seen
        ("1m1m", "not '1m1m'"),
        ("1 month", "not '1 month'"),
        ("1,5h", "not '1,5h'"),
        ("1e3", "not '1e3'"),
        ("nan", "not 'nan'"),
        ("inf", "not 'inf'"),
        ("٣s", "such as '30s'"),
        ("1_000", "not '1_000'"),
        ("1s" + " " * 200 + "x", "such as '30s'"),
        ("9" * 400, "such as '30s'"),
        (-1, "between 0 and ten years, not -1"),
        (-0.001, "between 0 and ten years"),
        (float("nan"), "between 0 and ten years, not nan"),
        (float("inf"), "between 0 and ten years, not inf"),
        (10**400, "between 0 and ten years"),
        pytest.param(10**5000, "not a number of thousands of digits", id="5001 digits"),
        (LONGEST_S + 1, "between 0 and ten years"),
        ("3651d", "between 0 and ten years, not 3651d"),
        (timedelta.max, "between 0 and ten years"),
        (timedelta(seconds=-1), "between 0 and ten years"),
        (True, "seconds, a timedelta or text such as '2m', not bool"),
        (None, "not NoneType"),
        (b"2m", "not bytes"),
        ([1], "not list"),
    ],
)
def test_what_is_no_duration_is_told_in_one_sentence(written: Any, said: str) -> None:
    with pytest.raises(ValueError, match="^a duration must be ") as caught:
        seconds(written)

    told = str(caught.value)
    assert said in told
    assert len(told) < 200
    assert "\n" not in told


@STEADY
@given(st.text(max_size=200))
def test_any_text_is_a_duration_within_bounds_or_a_sentence(written: str) -> None:
    try:
        found = seconds(written)
    except ValueError as error:
        assert str(error).startswith("a duration must be ")
    else:
        assert 0 <= found <= LONGEST_S


@STEADY
@given(st.lists(st.integers(0, 9999), min_size=len(UNITS), max_size=len(UNITS)), st.sampled_from(["", " ", "  "]))
def test_parts_add_up(counts: list[int], gap: str) -> None:
    falling = sorted(UNITS, key=lambda unit: -UNITS[unit])
    counts[0] = min(counts[0], 300)  # weeks
    counts[1] = min(counts[1], 700)  # days

    written = gap.join(f"{count}{unit}" for count, unit in zip(counts, falling, strict=True))

    assert seconds(written) == pytest.approx(sum(n * UNITS[unit] for n, unit in zip(counts, falling, strict=True)))


@STEADY
@given(st.timedeltas(timedelta(0), timedelta(days=3650)))
def test_a_timedelta_is_its_seconds(length: timedelta) -> None:
    assert seconds(length) == length.total_seconds()
