"""Retry-After: seconds, dates, and what says nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.steady import STEADY
from fencepost.domain.limits import LONGEST_BACKOFF_S, SHORT_PAUSE_S
from fencepost.domain.pause import is_short, retry_after_s

NOW = datetime(2027, 10, 21, 7, 0, tzinfo=UTC)
HALF_AN_HOUR = 28 * 60.0


@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    ("value", "pause"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (b"30", 30.0),
        (30, 30.0),
        (2.5, 2.5),
        (timedelta(minutes=2), 120.0),
        ("Thu, 21 Oct 2027 07:28:00 GMT", HALF_AN_HOUR),
        ("Thu, 21 Oct 2027 07:28:00 -0000", HALF_AN_HOUR),
        ("Thursday, 21-Oct-27 07:28:00 GMT", HALF_AN_HOUR),
        ("Thu Oct 21 07:28:00 2027", HALF_AN_HOUR),
        ("Thu, 21 Oct 2027 09:28:00 +0200", HALF_AN_HOUR),
        (b"Thu, 21 Oct 2027 07:28:00 GMT", HALF_AN_HOUR),
        (NOW + timedelta(seconds=9), 9.0),
        (datetime(2027, 10, 21, 9, 0, 9, tzinfo=timezone(timedelta(hours=2))), 9.0),
    ],
)
def test_seconds_and_each_form_of_a_date_are_read(value: Any, pause: float) -> None:
    """RTR-2."""
    assert retry_after_s(value, NOW) == pause


@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    "value",
    ["Thu, 21 Oct 2021 07:28:00 GMT", "Sun Nov  6 08:49:37 1994", datetime.min.replace(tzinfo=UTC), NOW],
)
def test_a_date_that_has_passed_is_no_wait(value: Any) -> None:
    """RTR-2."""
    assert retry_after_s(value, NOW) == 0.0


@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    "value",
    [
        "", " ", "soon", "-5", "+5", "nan", "inf", "1e9", "0x10", "1_0", "٣", "5 s", "5, 6", "1.", ".5", "9" * 50,
        "Thu, 99 Oct 2027 07:28:00 GMT", "Thu, 21 Oct 99999 07:28:00 GMT", "2027-10-21T07:28:00Z", "1 2 3 4 5 6",
        "Thu, 21 Oct 2027 07:28:00 GMT" + " " * 5000, -1, -math.inf, math.inf, math.nan, -(10**400), True, False, None,
        timedelta(seconds=-1), datetime(2027, 10, 21, 7, 28), object(), [], {}, b"\xff",  # noqa: DTZ001
    ],
)  # fmt: skip
def test_nonsense_says_nothing(value: Any) -> None:
    """RTR-2: the task's backoff decides then."""
    assert retry_after_s(value, NOW) is None


@pytest.mark.spec("R3")
@pytest.mark.parametrize("value", ["999999999999999", 1e300, 10**400, timedelta.max, datetime.max.replace(tzinfo=UTC)])
def test_a_wait_is_never_longer_than_a_year(value: Any) -> None:
    assert retry_after_s(value, NOW) == LONGEST_BACKOFF_S


@pytest.mark.spec("R3")
def test_a_date_says_nothing_while_the_time_is_not_known() -> None:
    assert retry_after_s("Thu, 21 Oct 2027 07:28:00 GMT", None) is None
    assert retry_after_s(NOW, None) is None
    assert retry_after_s("120", None) == 120


headers = st.one_of(
    st.text(max_size=120),
    st.binary(max_size=120),
    st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{2,5} [0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2})? (GMT|[+-][0-9]{1,6}|)"
    ),
    st.floats(),
    st.integers(),
    st.timedeltas(),
    st.datetimes(timezones=st.just(UTC)),
)


@pytest.mark.spec("R3")
@STEADY
@given(headers)
def test_any_header_is_a_bounded_number_or_nothing(value: Any) -> None:
    found = retry_after_s(value, NOW)

    assert found is None or 0 <= found <= LONGEST_BACKOFF_S


@pytest.mark.spec("R3")
@STEADY
@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_date_as_servers_write_it_means_the_time_until_then(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)

    found = retry_after_s(format_datetime(moment, usegmt=True), NOW)

    assert found == min(max(0.0, (moment - NOW).total_seconds()), LONGEST_BACKOFF_S)


@pytest.mark.spec("R3")
def test_a_pause_of_up_to_five_seconds_is_waited_out_in_the_slot() -> None:
    assert SHORT_PAUSE_S == 5
    assert is_short(0)
    assert is_short(5)
    assert not is_short(5.001)
