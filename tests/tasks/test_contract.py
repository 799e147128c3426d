"""The payload's contract: what enqueue accepts is what the run gives back, typed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, cast

import pytest
from pydantic import BaseModel, SecretStr

from fencepost.errors import PayloadError, UsageError
from fencepost.tasks.context import JobContext
from fencepost.tasks.contract import Contract
from tasks.shapes import Colour, Line, Order

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def contract_of(annotation: Any, **more: Any) -> Contract:
    def handler(x: Any) -> None: ...

    handler.__annotations__["x"] = annotation
    return Contract("demo", handler, **more)


@pytest.mark.spec("Q7")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 7),
        (int, 2**70),
        (float, 0.1),
        (float, 1e300),
        (str, "grüße 🎈"),
        (bool, True),
        (bytes, b"\xff\x00\x01"),
        (datetime, NOON),
        (datetime, datetime(2026, 3, 1, 12)),  # noqa: DTZ001 - naive as it is
        (date, NOON.date()),
        (timedelta, timedelta(days=3, microseconds=7)),
        (uuid.UUID, uuid.UUID(int=5)),
        (Decimal, Decimal("1.10")),
        (Literal["a", "b"], "b"),
        (Colour, Colour.RED),
        (Colour, Colour.GREEN),
        (Line, Line("a", 2)),
        (Order, Order(id=1, placed=NOON, lines=[Line("a", 2)], labels={"x"})),
        (list[Order] | None, [Order(id=1, placed=NOON, lines=[])]),
        (dict[int, str], {1: "a"}),
        (tuple[int, str], (1, "a")),
        (set[uuid.UUID], {uuid.UUID(int=1), uuid.UUID(int=2)}),
        (int | str, "7"),
        (int | str, 7),
        (Any, {"a": [1, None, "b"]}),
    ],
)
def test_a_value_comes_back_typed_and_equal(annotation: Any, value: Any) -> None:
    contract = contract_of(annotation)

    text = contract.encode((), {"x": value})
    back = contract.decode(text)["x"]

    assert back == value
    assert type(back) is type(value)


def test_a_model_may_be_given_as_plain_data() -> None:
    contract = contract_of(Order)

    text = contract.encode((), {"x": {"id": 1, "placed": NOON, "lines": [{"sku": "a", "count": 2}]}})

    assert contract.decode(text)["x"] == Order(id=1, placed=NOON, lines=[Line("a", 2)])


@pytest.mark.spec("Q7")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "7"),
        (int, 7.0),
        (int, True),
        (str, 7),
        (bool, 1),
        (float, "1.5"),
        (datetime, "soon"),
        (uuid.UUID, "no"),
        (Literal["a"], "b"),
        (Order, {"id": "1", "placed": NOON, "lines": []}),
        (list[int], [1, "2"]),
        (int, None),
    ],
)
def test_a_wrong_type_is_refused_at_enqueue_by_name_without_its_value(annotation: Any, value: Any) -> None:
    contract = contract_of(annotation)

    with pytest.raises(PayloadError, match=r"^demo: argument 'x[^']*': ") as refused:
        contract.encode((), {"x": value})

    assert "input_value" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_place_inside_an_argument_is_named() -> None:
    contract = contract_of(Order)

    with pytest.raises(PayloadError, match=r"argument 'x\.lines\[1\]\.count'"):
        contract.encode((), {"x": {"id": 1, "placed": NOON, "lines": [Line("a", 1), {"sku": "b", "count": "two"}]}})


@pytest.mark.parametrize(
    "value",
    [object(), lambda: 1, {"deep": object()}, "\ud800", "a\x00b", float("nan"), float("inf"), "x" * 300_000, 10**5000],
    ids=["object", "function", "nested object", "surrogate", "NUL", "NaN", "infinity", "too large", "endless int"],
)
def test_what_json_or_postgresql_cannot_hold_is_refused(value: Any) -> None:
    """PSN-3 and the NUL trap: refused in the client, before a byte is sent."""
    contract = contract_of(Any)

    with pytest.raises(PayloadError, match="demo"):
        contract.encode((), {"x": value})


def test_a_circular_value_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(PayloadError, match=r"argument 'x' cannot be stored"):
        contract_of(Any).encode((), {"x": circle})


def test_a_value_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]

    with pytest.raises(PayloadError, match="demo"):
        contract_of(Any).encode((), {"x": deep})


def test_missing_unknown_and_surplus_arguments_name_themselves() -> None:
    def handler(job: JobContext, order_id: int, note: str = "") -> None: ...

    contract = Contract("receipt.send", handler)

    for args, kwargs, said in [
        ((), {}, "order_id"),
        ((), {"order_id": 1, "ordr_id": 2}, "did you mean 'order_id'"),
        ((1, "a", "b"), {}, "it takes (order_id, note)"),
        ((1,), {"order_id": 2}, "order_id"),
        ((), {"order_id": 1, "job": None}, "the worker gives it"),
        ((), {"order_id": 1, "run_at": None}, "using(run_at=...)"),
    ]:
        with pytest.raises(PayloadError) as refused:
            contract.encode(args, cast("Mapping[str, Any]", kwargs))
        assert said in str(refused.value)
        assert str(refused.value).startswith("receipt.send: ")


def test_positional_arguments_are_stored_by_name() -> None:
    def handler(job: JobContext, order_id: int, note: str = "") -> None: ...

    assert json.loads(Contract("t", handler).encode((7, "a"), {})) == {"order_id": 7, "note": "a"}


def test_a_payload_of_another_shape_is_refused_at_the_run() -> None:
    contract = contract_of(int)

    for text in ['{"x": "7"}', "{}", '{"x": 1, "y": 2}', "[]", "null", "{", '{"x": 1e400}']:
        with pytest.raises(PayloadError, match=r"^demo: "):
            contract.decode(text)


def test_jsonb_numbers_come_back_exact() -> None:
    """PostgreSQL writes 1e300 out in full, and keeps integers of any size."""
    assert contract_of(float).decode('{"x": 1' + "0" * 300 + "}") == {"x": 1e300}
    assert contract_of(int).decode('{"x": 123456789012345678901234567890}') == {"x": 123456789012345678901234567890}


def test_a_default_is_applied_at_the_run_or_stored_for_a_snapshot() -> None:
    def handler(x: int, limit: int = 10) -> None: ...

    assert json.loads(Contract("t", handler).encode((1,), {})) == {"x": 1}
    assert json.loads(Contract("t", handler, store_defaults=True).encode((1,), {})) == {"x": 1, "limit": 10}
    assert json.loads(Contract("t", handler, store_defaults=True).encode((1, 5), {})) == {"x": 1, "limit": 5}


def test_the_context_may_stand_anywhere_and_is_no_argument() -> None:
    def last(a: int, b: int = 1, *, job: JobContext) -> None: ...
    def between(a: int, job: JobContext, b: str) -> None: ...

    assert Contract("t", last).context_name == "job"
    assert Contract("t", between).decode(Contract("t", between).encode((1, "x"), {})) == {"a": 1, "b": "x"}


class Plain:
    pass


class Sealed(BaseModel):
    key: SecretStr


def starred(*args: int) -> None: ...
def keywords(**kwargs: int) -> None: ...
def positional(a: int, /) -> None: ...
def bare(a) -> None: ...  # type: ignore[no-untyped-def]
def opaque(a: Plain) -> None: ...
def callback(a: type[Plain] | Plain) -> None: ...
def stream(a: Iterator[int]) -> None: ...
def secret(a: SecretStr) -> None: ...
def nested_secret(a: list[Sealed]) -> None: ...
def contexts(a: JobContext, b: JobContext) -> None: ...
def unresolved(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (starred, r"\*args is no contract"),
        (keywords, r"\*\*kwargs is no contract"),
        (positional, "'a' is positional-only"),
        (bare, "'a' needs a type annotation"),
        (opaque, "'a' has a type that cannot be stored"),
        (callback, "'a' has a type that cannot be stored"),
        (stream, "'a' is of a type that cannot be stored"),
        (secret, "'a' is a secret"),
        (nested_secret, "'a' is a secret"),
        (contexts, "only one parameter can be the JobContext, not a and b"),
        (unresolved, "'Missing' is not defined"),
    ],
)
def test_a_signature_that_is_no_contract_is_refused_at_registration(function: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^task 'demo': .*{said}"):
        Contract("demo", function)


def test_the_schema_is_readable() -> None:
    def handler(job: JobContext, order_id: int, note: str = "") -> None: ...

    schema = Contract("t", handler).schema()

    assert set(schema["properties"]) == {"order_id", "note"}
    assert schema["required"] == ["order_id"]
    assert schema["additionalProperties"] is False
