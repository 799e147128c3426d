"""From an exception to a code and a class: central, extensible, and safe whatever the exception does (SPEC R1).

    Classifier([
        (stripe.CardError, "CARD_DECLINED", "permanent"),          an exception type, or a tuple of them
        (lambda error: "deadlock" in str(error), "DEADLOCK"),      a predicate; retryable unless said otherwise
        (404, "ENTITY_NOT_FOUND", "permanent"),                    an HTTP status
    ])

Clients are known by their shape and their names, so nothing depends on them: a status on the error or on its
``response``, a Retry-After among its headers, the names of its classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencepost.domain import storable
from fencepost.domain.control import Cancelled, Control, InDoubt, Permanent, RateLimited, Skip
from fencepost.domain.failure import UNKNOWN, ErrorClass, Failure, usable_code
from fencepost.domain.fields import shown
from fencepost.domain.limits import CODE_CHARS
from fencepost.domain.pause import retry_after_s
from fencepost.errors import PayloadError, UsageError

When = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool] | int

_STATUS_NAMES = ("status_code", "status", "http_status", "code")
_TIMEOUTS = ("timeout", "timeouterror", "timedout", "timedouterror", "timeoutexception")
_NETWORK = (
    "clientoserror", "connecterror", "connectionclosed", "connectionerror", "connectionreset", "connectorerror",
    "disconnected", "disconnectederror", "gaierror", "incompletereaderror", "networkerror", "remoteprotocolerror",
)  # fmt: skip
_SEVEREST_FIRST = (
    ErrorClass.IN_DOUBT, ErrorClass.PERMANENT, ErrorClass.UNKNOWN, ErrorClass.RETRYABLE, ErrorClass.RATE_LIMITED,
    ErrorClass.SKIP,
)  # fmt: skip
_CONTROLS: tuple[tuple[type[Control], ErrorClass], ...] = (
    (InDoubt, ErrorClass.IN_DOUBT),
    (Permanent, ErrorClass.PERMANENT),
    (RateLimited, ErrorClass.RATE_LIMITED),
    (Skip, ErrorClass.SKIP),
)


@dataclass(frozen=True, slots=True)
class Rule:
    """``when`` an exception fits, it has this code and class.

    ``when``: a type, a tuple of types, a predicate, or an HTTP status (100 to 599). Raises `UsageError` for what can
    never fit and for codes that are fencepost's own.
    """

    when: When
    code: str
    kind: ErrorClass = ErrorClass.RETRYABLE

    def __post_init__(self) -> None:
        if not usable_code(self.code):
            message = (
                f"classify: code {shown(self.code)} must be 1 to {CODE_CHARS} printable characters and none of "
                "fencepost's own"
            )
            raise UsageError(message)
        try:
            object.__setattr__(self, "kind", ErrorClass(self.kind))
        except ValueError:
            message = (
                f"classify: the class of {self.code} must be one of {', '.join(ErrorClass)}, not {shown(self.kind)}"
            )
            raise UsageError(message) from None
        if not _can_fit(self.when):
            message = (
                f"classify: the rule for {self.code} needs an exception type, a tuple of them, a function of the error "
                f"or an HTTP status, not {shown(self.when)}"
            )
            raise UsageError(message)

    def fits(self, error: BaseException) -> bool:
        """Whether it applies; a rule that raises does not."""
        try:
            if isinstance(self.when, int):
                return _status(error) == self.when
            if isinstance(self.when, type | tuple):
                return issubclass(type(error), self.when)
            return bool(self.when(error))
        except Exception:  # noqa: BLE001 - a user's predicate, or a class with a broken __subclasscheck__
            return False


RuleLike = Rule | tuple[When, str] | tuple[When, str, str]


def rule(like: Any) -> Rule:
    """A `Rule` from itself or from ``(when, code)`` or ``(when, code, class)``. Raises UsageError."""
    if isinstance(like, Rule):
        return like
    if isinstance(like, tuple) and len(like) in (2, 3):
        return Rule(*like)
    message = f"classify: write a rule as (when, code) or (when, code, class), not {shown(like)}"
    raise UsageError(message)


class Classifier:
    """Users' rules first, in order; then HTTP statuses, time-outs and connections by their shape; else UNKNOWN.

    ``redact`` is applied to the stored text. Safe to share between threads; `classify` never raises.
    """

    def __init__(self, rules: Iterable[RuleLike] = (), redact: Callable[[str], str] | None = None) -> None:
        self._rules = tuple(rule(one) for one in rules)
        self.redact = redact

    def register(self, *rules: RuleLike) -> None:
        """Add rules, asked before the older ones. Raises UsageError; nothing was added then."""
        self._rules = (*(rule(one) for one in rules), *self._rules)

    def classify(self, error: BaseException, now: datetime | None = None) -> Failure:
        """The failure that ``error`` is. Never raises. Without ``now`` a Retry-After that is a date says nothing.

        A group is what its severest member is: one permanent failure among them is not mended by a retry.
        """
        try:
            code, kind, asked = self._severest(error, now)
        except BaseException:  # noqa: BLE001 - whatever an exception's own properties do
            code, kind, asked = UNKNOWN, ErrorClass.UNKNOWN, None
        try:
            told = storable.describe(error, self.redact)
        except BaseException:  # noqa: BLE001 - a failure without a text is still a failure
            told = storable.type_name(error)
        return Failure(code=storable.text(code, CODE_CHARS), kind=kind, text=told, retry_after_s=asked)

    def _severest(self, error: BaseException, now: datetime | None) -> tuple[str, ErrorClass, float | None]:
        found = [self._what(one, now) for one in storable.leaves(error, 100)[0]]
        if not found:
            return UNKNOWN, ErrorClass.UNKNOWN, None
        return min(found, key=lambda one: (_SEVEREST_FIRST.index(one[1]), -(one[2] or 0.0)))

    def _what(self, error: BaseException, now: datetime | None) -> tuple[str, ErrorClass, float | None]:
        asked = _retry_after(error, now)
        for one in self._rules:
            if one.fits(error):
                return one.code, one.kind, asked
        kind = type(error)
        if issubclass(kind, Control):
            return *_control(error), asked
        if issubclass(kind, PayloadError):
            return "PAYLOAD_INVALID", ErrorClass.PERMANENT, None
        if issubclass(kind, Exception) and (status := _status(error)) is not None:
            by_status = _by_status(status)
            if by_status is not None:
                return *by_status, asked
        return *_by_type(error), asked


def unwrap(error: BaseException) -> BaseException:
    """The one error inside a group of one, however deep; anything else as it is.

    A ``TaskGroup`` hands on what a child raised inside a group: a `Snooze` in there must still be one.
    """
    found, count = storable.leaves(error, 1)
    return found[0] if count == 1 and found else error


def _can_fit(when: Any) -> bool:
    if isinstance(when, bool):
        return False
    if isinstance(when, int):
        return 100 <= when < 600
    if isinstance(when, tuple):
        return bool(when) and all(isinstance(one, type) and issubclass(one, BaseException) for one in when)
    if isinstance(when, type):
        return issubclass(when, BaseException)
    return callable(when)


def _control(error: BaseException) -> tuple[str, ErrorClass]:
    code = _attribute(error, "code")
    if not usable_code(code):
        known = (getattr(one, "code", None) for one in type(error).__mro__)
        code = next((one for one in known if usable_code(one)), UNKNOWN)
    if issubclass(type(error), Cancelled):
        return code, ErrorClass.UNKNOWN
    return code, next((kind for of, kind in _CONTROLS if issubclass(type(error), of)), ErrorClass.RETRYABLE)


def _by_status(status: int) -> tuple[str, ErrorClass] | None:
    if status == 429:
        return "RATE_LIMITED", ErrorClass.RATE_LIMITED
    if 500 <= status < 600:
        return "PROVIDER_5XX", ErrorClass.RETRYABLE
    if status in (401, 403):
        return "AUTH_FAILED", ErrorClass.PERMANENT
    if status in (408, 425):
        return "NETWORK_TIMEOUT", ErrorClass.RETRYABLE
    return None


def _by_type(error: BaseException) -> tuple[str, ErrorClass]:
    kind = type(error)
    if issubclass(kind, MemoryError):
        return "OUT_OF_MEMORY", ErrorClass.RETRYABLE
    if issubclass(kind, TimeoutError) or _named(kind, _TIMEOUTS):
        return "NETWORK_TIMEOUT", ErrorClass.RETRYABLE
    if issubclass(kind, ConnectionError) or _named(kind, _NETWORK):
        return "NETWORK_ERROR", ErrorClass.RETRYABLE
    reason = _attribute(error, "reason")  # urllib's and urllib3's errors carry what really happened
    if issubclass(type(reason), BaseException) and (
        issubclass(type(reason), OSError) or _named(type(reason), _NETWORK)
    ):
        timed_out = issubclass(type(reason), TimeoutError) or _named(type(reason), _TIMEOUTS)
        return ("NETWORK_TIMEOUT" if timed_out else "NETWORK_ERROR"), ErrorClass.RETRYABLE
    return UNKNOWN, ErrorClass.UNKNOWN


def _named(kind: type[BaseException], endings: tuple[str, ...]) -> bool:
    return any(one.__name__.lower().endswith(endings) for one in kind.__mro__)


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except BaseException:  # noqa: BLE001 - whatever a property of somebody's exception does
        return None


def _holders(error: BaseException) -> Iterator[Any]:
    response = _attribute(error, "response")
    if isinstance(response, dict):  # botocore
        response = response.get("ResponseMetadata")
    if response is not None:
        yield response
    yield error


def _status(error: BaseException) -> int | None:
    for holder in _holders(error):
        names = ("HTTPStatusCode",) if isinstance(holder, dict) else _STATUS_NAMES
        for name in names:
            value = holder.get(name) if isinstance(holder, dict) else _attribute(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return int(value)
    return None


def _retry_after(error: BaseException, now: datetime | None) -> float | None:
    own = _attribute(error, "retry_after")
    if own is not None and (found := retry_after_s(own, now)) is not None:
        return found
    for holder in _holders(error):
        headers = holder.get("HTTPHeaders") if isinstance(holder, dict) else _attribute(holder, "headers")
        get = _attribute(headers, "get")
        if not callable(get):
            continue
        for name in ("Retry-After", "retry-after"):
            value = _called(get, name)
            if value is not None:
                return retry_after_s(value, now)
    return None


def _called(get: Any, name: str) -> Any:
    try:
        return get(name)
    except BaseException:  # noqa: BLE001 - somebody's mapping
        return None
