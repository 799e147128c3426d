"""JSON that PostgreSQL stores unchanged, and a sentence with the path for what it cannot store."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.hostile import Broken
from domain.steady import STEADY
from fencepost.domain.limits import INTEGER_DIGITS, JSON_DEPTH, PAYLOAD_BYTES
from fencepost.domain.payload import decode, encode
from fencepost.errors import PayloadError


def written(value: Any, limit: int = PAYLOAD_BYTES) -> str:
    return encode(value, limit=limit, what="the payload")


def nested(depth: int, inner: Any = 0) -> Any:
    """``inner`` at this depth, the outermost being 1."""
    value = inner
    for _ in range(depth - 1):
        value = [value]
    return value


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)
anything = st.recursive(
    scalars | st.floats() | st.binary(max_size=5) | st.text(st.characters(codec=None), max_size=5) | st.just(object()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers() | st.text(max_size=5), inner, max_size=4) | st.tuples(inner),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.spec("Q7")
@STEADY
@given(plain)
def test_what_is_written_comes_back(value: Any) -> None:
    assert decode(written(value)) == value


@pytest.mark.spec("Q7")
@STEADY
@given(anything)
def test_anything_is_written_as_strict_json_or_refused_in_a_sentence(value: Any) -> None:
    try:
        text = written(value)
    except PayloadError as error:
        assert str(error).startswith("the payload")
        assert "\n" not in str(error)
    else:
        json.loads(text, parse_constant=pytest.fail)
        assert "\\u0000" not in text.replace("\\\\", "")
        text.encode("utf-8")


BAD_AT_A = [
    (math.nan, "is nan, which JSON does not have; use None or a text"),
    (math.inf, "is inf, which JSON does not have; use None or a text"),
    (-math.inf, "is -inf, which JSON does not have; use None or a text"),
    (b"raw", "is a bytes, which JSON cannot hold; pass text, numbers, lists or dicts"),
    (bytearray(b"raw"), "is a bytearray, which JSON cannot hold; pass text, numbers, lists or dicts"),
    ({1}, "is a set, which JSON cannot hold; pass text, numbers, lists or dicts"),
    (datetime(2026, 1, 1, tzinfo=UTC), "is a datetime, which JSON cannot hold; pass text, numbers, lists or dicts"),
    (Decimal(1), "is a Decimal, which JSON cannot hold; pass text, numbers, lists or dicts"),
    (1j, "is a complex, which JSON cannot hold; pass text, numbers, lists or dicts"),
    (Broken(), "is a Broken, which JSON cannot hold; pass text, numbers, lists or dicts"),
    ("a\0b", "contains NUL (U+0000), which PostgreSQL cannot store; remove it"),
    ("a\ud800b", "contains half a character (a lone surrogate); repair the text"),
    (10**INTEGER_DIGITS, f"is an integer of more than {INTEGER_DIGITS} digits; pass it as text"),
    (-(10**100_000), f"is an integer of more than {INTEGER_DIGITS} digits; pass it as text"),
]


@pytest.mark.spec("Q7", "W6")
@pytest.mark.parametrize(
    ("bad", "said"), BAD_AT_A, ids=[f"{type(bad).__name__}-{n}" for n, (bad, _) in enumerate(BAD_AT_A)]
)
def test_a_bad_value_is_named_by_its_path(bad: Any, said: str) -> None:
    """PSN-1, PSN-3."""
    for value, path in (
        (bad, "$"),
        ({"order": {"lines": [1, {"amount": bad}]}}, "$.order.lines[1].amount"),
        ({"a key": (0, bad)}, "$['a key'][1]"),
        ({'quo"te': bad}, "$['quo\"te']"),
    ):
        with pytest.raises(PayloadError) as caught:
            written(value)
        assert str(caught.value) == f"the payload: {path} {said}"


@pytest.mark.spec("Q7")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": {1: 2}}, "the payload: $.a has a key of type int; keys must be text"),
        ({None: 2}, "the payload: $ has a key of type NoneType; keys must be text"),
        ({b"a": 2}, "the payload: $ has a key of type bytes; keys must be text"),
        ({"a": [{True: 2}]}, "the payload: $.a[0] has a key of type bool; keys must be text"),
        (
            {"a": {"x\0": 2}},
            "the payload: a key of $.a contains NUL (U+0000), which PostgreSQL cannot store; remove it",
        ),
        ({"\ud800": 2}, "the payload: a key of $ contains half a character (a lone surrogate); repair the text"),
    ],
)
def test_a_bad_key_is_named_by_the_path_to_it(value: Any, said: str) -> None:
    with pytest.raises(PayloadError) as caught:
        written(value)

    assert str(caught.value) == said


@pytest.mark.spec("Q7", "K1")
@STEADY
@given(anything)
def test_no_message_quotes_a_value(value: Any) -> None:
    secret = "hunter22-" * 3

    with pytest.raises(PayloadError) as caught:
        written({"a": secret, "b": [value, secret + "\0", object(), math.nan]})

    assert "hunter22" not in str(caught.value)


@pytest.mark.spec("Q7")
def test_depth_is_an_answer_and_not_a_crash() -> None:
    circle: list[Any] = []
    circle.append(circle)
    ring: dict[str, Any] = {}
    ring["self"] = {"again": ring}

    assert decode(written(nested(JSON_DEPTH))) == nested(JSON_DEPTH)
    for value in (nested(JSON_DEPTH + 1), nested(100_000), circle, ring):
        with pytest.raises(
            PayloadError, match=r"^the payload is nested deeper than 100 levels \(or contains itself\); flatten it$"
        ):
            written(value)


@pytest.mark.spec("Q7")
def test_a_huge_integer_that_comes_back_is_kept_exactly() -> None:
    for number in (2**53 + 1, 10**18, -(10 ** (INTEGER_DIGITS - 2)) - 1):
        assert decode(written([number])) == [number]


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀", '"', "\x01"])
def test_the_limit_is_of_bytes_as_they_are_sent(letter: str) -> None:
    whole = len(written(letter * 10).encode())

    assert written(letter * 10, limit=whole)
    with pytest.raises(
        PayloadError,
        match=r"^the payload is .*bytes of JSON and \d+ are allowed; store it elsewhere and pass a reference$",
    ):
        written(letter * 10, limit=whole - 1)


@pytest.mark.spec("Q7")
@pytest.mark.timeout(30)
def test_what_is_small_in_memory_and_huge_as_text_is_refused_before_it_is_written() -> None:
    """A list that holds the same list twice at each of 60 levels would be 2^60 elements."""
    value: Any = ["x"]
    for _ in range(60):
        value = [value, value]

    for huge in (value, "x" * 5_000_000, [None] * 5_000_000, {str(n): n for n in range(200_000)}):
        with pytest.raises(PayloadError, match="262,144 are allowed"):
            written(huge)


class Colour(enum.StrEnum):
    RED = "red"


class Count(enum.IntEnum):
    TWO = 2


def test_subclasses_of_plain_values_are_written_as_what_they_are() -> None:
    assert written([Colour.RED, Count.TWO, OrderedDict(a=1), (1,)]) == '["red",2,{"a":1},[1]]'


@pytest.mark.spec("Q7", "C12")
@pytest.mark.parametrize(
    "text", ["", "{", "nul", "NaN", "[Infinity]", '{"a":-Infinity}', "[" * 100_000, b"\xff", "'a'", "9" * (INTEGER_DIGITS + 1)],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_json_is_a_value_error(text: Any) -> None:
    with pytest.raises(ValueError, match="."):
        decode(text)
