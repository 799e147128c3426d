"""From an exception to a code and a class: by the user's rules first, then by its shape, and never raising."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from domain.hostile import HOSTILE, BarelyAnException, Mute
from fencepost.domain.classify import Classifier, Rule, rule, unwrap
from fencepost.domain.control import InDoubt, Permanent, Skip, Snooze
from fencepost.domain.failure import RESERVED, ErrorClass
from fencepost.domain.limits import ERROR_BYTES
from fencepost.errors import PayloadError, UsageError

NOW = datetime(2027, 10, 21, 7, 0, tzinfo=UTC)


class HttpError(Exception):
    """As most clients shape theirs."""

    def __init__(self, status: Any = None, headers: Any = None, **more: Any) -> None:
        super().__init__(f"status {status}")
        self.response = SimpleNamespace(status_code=status, headers=headers or {})
        vars(self).update(more)


def what(error: BaseException, *rules: Any) -> tuple[str, str]:
    found = Classifier(rules).classify(error, NOW)
    return found.code, found.kind


@pytest.mark.spec("R1")
def test_the_first_rule_that_fits_wins() -> None:
    rules = [
        (LookupError, "NOT_THERE", "permanent"),
        (KeyError, "KEY", "skip"),
        (lambda error: "deadlock" in str(error), "DEADLOCK"),
        ((ValueError, TypeError), "BAD_INPUT", "permanent"),
    ]

    assert what(KeyError("x"), *rules) == ("NOT_THERE", "permanent")
    assert what(RuntimeError("deadlock detected"), *rules) == ("DEADLOCK", "retryable")
    assert what(ValueError("deadlock"), *rules) == ("DEADLOCK", "retryable")
    assert what(TypeError(), *rules) == ("BAD_INPUT", "permanent")
    assert what(RuntimeError("other"), *rules) == ("UNKNOWN", "unknown")


@pytest.mark.spec("R1")
def test_rules_that_come_later_are_asked_earlier() -> None:
    classifier = Classifier([(ValueError, "OLD")])

    classifier.register((ValueError, "NEW", "permanent"), (ValueError, "NEVER"))

    assert classifier.classify(ValueError()).code == "NEW"


@pytest.mark.spec("R1")
def test_of_rules_that_are_refused_none_is_added() -> None:
    classifier = Classifier()

    with pytest.raises(UsageError):
        classifier.register((ValueError, "GOOD"), (ValueError, "STALE"))

    assert classifier.classify(ValueError()).code == "UNKNOWN"


@pytest.mark.spec("R1")
def test_a_rule_goes_before_the_shape_and_before_a_control() -> None:
    assert what(HttpError(503), (503, "MAINTENANCE", "rate_limited")) == ("MAINTENANCE", "rate_limited")
    assert what(TimeoutError(), (OSError, "DISK", "permanent")) == ("DISK", "permanent")
    assert what(Skip("x"), (Skip, "GONE", "permanent")) == ("GONE", "permanent")


@pytest.mark.spec("R1")
def test_a_rule_that_raises_does_not_fit() -> None:
    class Moody(type):
        def __subclasscheck__(cls, other: type) -> bool:
            raise RuntimeError(other)

    class Mood(Exception, metaclass=Moody):
        pass

    assert what(ValueError(), (lambda error: 1 / 0 > 1, "NEVER"), (Mood, "NEVER"), (ValueError, "THIS")) == (
        "THIS",
        "retryable",
    )


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(((ValueError, code), f"classify: code '{code}' must be 1 to 64") for code in sorted(RESERVED)),
        ((ValueError, ""), "classify: code '' must be"),
        ((ValueError, "a\nb"), "classify: code 'a"),
        ((ValueError, 7), "classify: code 7 must be"),
        ((ValueError, "X", "sometimes"), "classify: the class of X must be one of retryable, permanent"),
        ((int, "X"), "classify: the rule for X needs an exception type"),
        (((), "X"), "classify: the rule for X needs"),
        (((ValueError, int), "X"), "classify: the rule for X needs"),
        ((True, "X"), "classify: the rule for X needs"),
        ((99, "X"), "classify: the rule for X needs"),
        ((600, "X"), "classify: the rule for X needs"),
        (("ValueError", "X"), "classify: the rule for X needs"),
        ((ValueError,), r"classify: write a rule as \(when, code\)"),
        (ValueError, r"classify: write a rule as \(when, code\)"),
        ([ValueError, "X"], r"classify: write a rule as \(when, code\)"),
    ],
)
def test_a_rule_that_can_never_fit_is_refused_in_a_sentence(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        rule(given)


def test_a_rule_may_be_given_as_such() -> None:
    made = Rule(ValueError, "X", ErrorClass.SKIP)

    assert rule(made) is made
    assert what(ValueError(), made) == ("X", "skip")


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, ("RATE_LIMITED", "rate_limited")),
        (500, ("PROVIDER_5XX", "retryable")),
        (503, ("PROVIDER_5XX", "retryable")),
        (599, ("PROVIDER_5XX", "retryable")),
        (401, ("AUTH_FAILED", "permanent")),
        (403, ("AUTH_FAILED", "permanent")),
        (408, ("NETWORK_TIMEOUT", "retryable")),
        (404, ("UNKNOWN", "unknown")),
        (200, ("UNKNOWN", "unknown")),
        (True, ("UNKNOWN", "unknown")),
        ("503", ("UNKNOWN", "unknown")),
        (6000, ("UNKNOWN", "unknown")),
    ],
)
def test_an_http_status_is_known_wherever_a_client_puts_it(status: Any, expected: tuple[str, str]) -> None:
    bare = RuntimeError("x")
    vars(bare)["status"] = status
    boto = RuntimeError("x")
    vars(boto)["response"] = {"ResponseMetadata": {"HTTPStatusCode": status}}

    assert what(HttpError(status)) == what(bare) == what(boto) == expected


class ReadTimeout(Exception):
    pass


class PoolDisconnected(Exception):
    pass


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), ("NETWORK_TIMEOUT", "retryable")),
        (ReadTimeout(), ("NETWORK_TIMEOUT", "retryable")),
        (ConnectionResetError(), ("NETWORK_ERROR", "retryable")),
        (socket.gaierror(), ("NETWORK_ERROR", "retryable")),
        (PoolDisconnected(), ("NETWORK_ERROR", "retryable")),
        (urllib.error.URLError(ConnectionRefusedError()), ("NETWORK_ERROR", "retryable")),
        (urllib.error.URLError(TimeoutError()), ("NETWORK_TIMEOUT", "retryable")),
        (MemoryError(), ("OUT_OF_MEMORY", "retryable")),
        (PayloadError("a is missing"), ("PAYLOAD_INVALID", "permanent")),
        (ValueError("?"), ("UNKNOWN", "unknown")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_known_by_its_type_or_name(error: Exception, expected: tuple[str, str]) -> None:
    assert what(error) == expected


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), BarelyAnException("x"), SystemExit(503)],
    ids=repr,
)  # fmt: skip
def test_what_is_no_exception_is_classified_like_one(error: BaseException) -> None:
    """``SystemExit(503)`` has a ``code``, which is no HTTP status."""
    assert what(error) == ("UNKNOWN", "unknown")


@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (HttpError(429, {"Retry-After": "120"}), 120),
        (HttpError(503, {"retry-after": "Thu, 21 Oct 2027 07:28:00 GMT"}), 1680),
        (HttpError(400, {"Retry-After": "7"}), 7),
        (HttpError(429, {"Retry-After": "soon"}), None),
        (HttpError(429, retry_after=9), 9),
        (HttpError(429, {"Retry-After": "120"}, retry_after=object()), 120),
        (HttpError(429, SimpleNamespace(get=lambda _: 1 / 0)), None),
        (HttpError(429, 7), None),
        (HttpError(429), None),
    ],
    ids=lambda value: "",
)
def test_a_retry_after_is_read_for_any_status(error: Exception, asked: float | None) -> None:
    assert Classifier().classify(error, NOW).retry_after_s == asked


@pytest.mark.spec("R3")
def test_a_rules_code_keeps_the_retry_after_of_the_error() -> None:
    found = Classifier([(HttpError, "MAINTENANCE")]).classify(HttpError(503, {"Retry-After": "60"}), NOW)

    assert (found.code, found.retry_after_s) == ("MAINTENANCE", 60)


SEVEREST_FIRST = [InDoubt(), Permanent(), ValueError("?"), TimeoutError(), HttpError(429), Skip()]


@pytest.mark.spec("R1", "L7")
@pytest.mark.parametrize("first", range(len(SEVEREST_FIRST)))
def test_a_group_is_what_its_severest_member_is(first: int) -> None:
    members = SEVEREST_FIRST[first:]

    for shown in (members, members[::-1]):
        assert what(ExceptionGroup("several", shown)) == what(members[0])
        assert what(ExceptionGroup("outer", [ExceptionGroup("inner", shown)])) == what(members[0])


@pytest.mark.spec("R3")
def test_of_several_pauses_the_longest_is_kept() -> None:
    group = ExceptionGroup("all", [HttpError(429, {"Retry-After": str(n)}) for n in (5, 60, 7)])

    assert Classifier().classify(group, NOW).retry_after_s == 60


def test_the_rules_see_the_members_of_a_group() -> None:
    assert what(ExceptionGroup("x", [ValueError("a"), KeyError("b")]), (KeyError, "GONE", "permanent")) == (
        "GONE",
        "permanent",
    )


@pytest.mark.spec("R1")
def test_a_cause_is_told_and_does_not_decide() -> None:
    """``raise Permanent(...) from timeout`` means what it says."""
    error = Permanent("the card is gone")
    error.__cause__ = TimeoutError("read")

    found = Classifier().classify(error)

    assert (found.code, found.kind) == ("PERMANENT", "permanent")
    assert "caused by: TimeoutError: read" in found.text


@pytest.mark.spec("R1", "R8")
@pytest.mark.parametrize("kind", HOSTILE, ids=lambda kind: "class")
def test_whatever_an_exception_does_it_is_classified(kind: type[BaseException]) -> None:
    """PSN-5."""
    classifier = Classifier([(lambda error: "x" in str(error), "TEXT"), (503, "X")], redact=lambda value: value.upper())

    for error in (kind("why"), BaseExceptionGroup("g", [kind("why")])):
        found = classifier.classify(error, NOW)
        assert found.code in {"UNKNOWN", "TEXT"}
        assert 0 < len(found.text.encode()) <= ERROR_BYTES


@pytest.mark.spec("K1", "R8")
def test_a_redactor_that_fails_does_not_let_the_text_through() -> None:
    def broken(value: str) -> str:
        raise KeyboardInterrupt(value)

    for redact in (broken, lambda _: None):
        found = Classifier(redact=redact).classify(ValueError("hunter22"))  # type: ignore[arg-type]
        assert found.code == "UNKNOWN"
        assert "hunter22" not in found.text


def test_a_control_inside_a_group_of_one_is_still_one() -> None:
    snooze = Snooze(30)

    assert unwrap(ExceptionGroup("TaskGroup", [ExceptionGroup("inner", [snooze])])) is snooze
    assert unwrap(snooze) is snooze


def test_a_group_of_two_or_one_that_hides_its_members_stays_a_group() -> None:
    for group in (ExceptionGroup("two", [Snooze(1), ValueError()]), Mute("mute", [ValueError()])):
        assert unwrap(group) is group
