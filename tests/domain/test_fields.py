"""The checks of single fields, and the options of one job."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.hostile import Broken, Lying
from domain.steady import STEADY
from fencepost.domain.fields import moment, one_of, shown, tags, truth, whole, word
from fencepost.domain.request import OPTIONS, fields, unknown
from fencepost.errors import PayloadError, UsageError

any_text = st.text(st.characters(codec=None), max_size=30)
anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | any_text
    | st.binary(max_size=9)
    | st.lists(any_text, max_size=3)
)


@STEADY
@given(any_text, st.integers(1, 20))
def test_a_word_that_is_accepted_can_be_stored_and_seen(value: str, limit: int) -> None:
    try:
        found = word("queue", value, limit)
    except UsageError as error:
        assert str(error).startswith("queue ")
        assert str(error).isprintable()
    else:
        assert found == value == found.strip()
        assert 0 < len(found) <= limit
        assert found.isprintable()
        found.encode("utf-8")
        assert "\0" not in found


def test_a_word_is_of_exactly_the_type_text() -> None:
    class Name(str):
        __slots__ = ()

    assert type(word("queue", Name("q"), 9)) is str


@STEADY
@given(anything)
def test_only_true_and_false_are_truths(value: Any) -> None:
    if isinstance(value, bool):
        assert truth("at_most_once", value) is value
    else:
        with pytest.raises(UsageError, match="^at_most_once must be True or False, not "):
            truth("at_most_once", value)


@STEADY
@given(anything)
def test_only_whole_numbers_of_the_range_are_whole(value: Any) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and -5 <= value <= 5:
        assert whole("n", value, -5, 5) == value
    else:
        with pytest.raises(UsageError, match="^n must be (a whole number|between -5 and 5), not "):
            whole("n", value, -5, 5)


@STEADY
@given(anything)
def test_any_value_is_shown_shortly(value: Any) -> None:
    assert len(shown(value)) <= 40


@pytest.mark.parametrize("value", [Broken(), Lying("x" * 100), [Broken()], math.nan, "x" * 10**6], ids=range(5))
def test_a_value_that_cannot_be_shown_is_named_by_its_type(value: Any) -> None:
    assert 0 < len(shown(value)) <= 60
    assert shown(10**5000) == "a int"


def test_one_of_the_words() -> None:
    assert one_of("on_lost", "fail", ("retry", "fail")) == "fail"
    for value in ("FAIL", "", None, 7, ["fail"]):
        with pytest.raises(UsageError, match="^on_lost must be one of retry, fail, not "):
            one_of("on_lost", value, ("retry", "fail"))


@STEADY
@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.timezones() | st.just(UTC)))  # noqa: DTZ001
def test_a_moment_is_the_same_instant_in_utc(value: datetime) -> None:
    found = moment("run_at", value)

    assert found.tzinfo is UTC
    assert found.timestamp() == value.timestamp()


class Nowhere(tzinfo):
    """A zone that knows no offset."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return None

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        return None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime(2030, 1, 1), "has no time zone"),  # noqa: DTZ001
        (datetime(2030, 1, 1, tzinfo=Nowhere()), "has no time zone"),
        ("2030-01-01", "must be a datetime with a time zone, not str"),
        (1893456000, "must be a datetime with a time zone, not int"),
        (datetime(1969, 12, 31, tzinfo=UTC), "must lie between the years 1970 and 9999"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=9))), "must lie between the years"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=9))), "must lie between the years"),
    ],
)
def test_what_is_no_moment_is_told(value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^run_at {said}"):
        moment("run_at", value)


def test_tags_are_different_words_in_order() -> None:
    assert tags("tags", iter(["b", "a", "b"]), 2, 9) == ("b", "a")
    for value, said in (
        ("ab", "must be a list"),
        (None, "must be a list"),
        (["a", "b", "c"], "holds more than the 2"),
        ([""], ": each tag"),
    ):
        with pytest.raises(UsageError, match=f"^tags ?{said}"):
            tags("tags", value, 2, 9)


@pytest.mark.timeout(10)
def test_tags_without_end_are_refused() -> None:
    with pytest.raises(UsageError, match="holds more than"):
        tags("tags", map(str, itertools.count()), 20, 9)


@pytest.mark.spec("Q6", "Q7")
@STEADY
@given(st.sampled_from(sorted(OPTIONS)), anything)
def test_any_option_is_checked_and_a_refusal_names_task_and_option(option: str, value: Any) -> None:
    try:
        found = fields("mail.send", {option: value})
    except UsageError as error:
        assert str(error).startswith(f"mail.send: {option}")
    else:
        assert len(found) == (value is not None)


@pytest.mark.spec("Q7")
def test_meta_is_refused_as_a_payload_is() -> None:
    with pytest.raises(PayloadError, match=r"^mail\.send: meta: \$\.a\[1\] is nan, which JSON does not have"):
        fields("mail.send", {"meta": {"a": [0, math.nan]}})


def test_an_unknown_option_is_told_with_the_nearest() -> None:
    assert (
        unknown("t: using(...)", "prority", OPTIONS)
        == "t: using(...) has no option 'prority'; did you mean 'priority'?"
    )
    assert unknown("t", "zzz", ["b", "a"]) == "t has no option 'zzz'; it knows a, b"
