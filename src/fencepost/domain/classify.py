"""From an exception to a code and a class: central, extensible, and safe whatever the exception does (SPEC R1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fencepost.domain import storable
from fencepost.domain.control import Control
from fencepost.domain.failure import ErrorClass, Failure
from fencepost.domain.limits import CODE_CHARS
from fencepost.domain.pause import retry_after_s
from fencepost.errors import PayloadError, UsageError

RESERVED = frozenset({
    "STALE", "CRASH_LOOP", "CRASHED", "EXPIRED", "DEADLINE", "UNSTORABLE", "NO_PROGRESS", "TIMEOUT", "UNKNOWN_TASK",
    "UNKNOWN_VERSION", "MAX_DURATION",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """``when`` an exception fits (a type, a tuple of types, or a predicate) it has this code and class."""

    when: type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
    code: str
    kind: ErrorClass = ErrorClass.RETRYABLE

    def __post_init__(self) -> None:
        if not 0 < len(str(self.code)) <= CODE_CHARS or self.code in RESERVED:
            message = f"rule: code {self.code!r:.80} must be 1 to {CODE_CHARS} characters and none of fencepost's own"
            raise UsageError(message)
        object.__setattr__(self, "kind", ErrorClass(self.kind))

    def fits(self, error: BaseException) -> bool:
        """Whether it applies; a predicate that raises does not."""
        if isinstance(self.when, type | tuple):
            return isinstance(error, self.when)
        try:
            return bool(self.when(error))
        except Exception:  # noqa: BLE001 - a user's predicate
            return False


class Classifier:
    """Users' rules first, in order; then HTTP statuses, time-outs and connections by their shape; else UNKNOWN."""

    def __init__(self, rules: Iterable[Rule] = (), redact: Callable[[str], str] | None = None) -> None:
        self._rules = list(rules)
        self.redact = redact

    def register(self, rule: Rule) -> None:
        """Add a rule; the newest is asked first."""
        self._rules.insert(0, rule)

    def classify(self, error: BaseException, now: datetime | None = None) -> Failure:
        """The failure that ``error`` is. Never raises."""
        code, kind, retry_after = self._what(error, now)
        return Failure(
            code=storable.text(code, CODE_CHARS),
            kind=kind,
            text=storable.describe(error, self.redact),
            retry_after_s=retry_after,
        )

    def _what(self, error: BaseException, now: datetime | None) -> tuple[str, ErrorClass, float | None]:
        asked = _retry_after(error, now or datetime.now(UTC))
        for rule in self._rules:
            if rule.fits(error):
                return rule.code, rule.kind, asked
        if isinstance(error, Control):
            return error.code or type(error).__name__.upper(), ErrorClass.RETRYABLE, asked
        if isinstance(error, PayloadError):
            return "PAYLOAD_INVALID", ErrorClass.PERMANENT, None
        status = _status(error)
        if status is not None and (found := _by_status(status)) is not None:
            return *found, asked
        return *_by_type(error), asked


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
    if isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower():
        return "NETWORK_TIMEOUT", ErrorClass.RETRYABLE
    if isinstance(error, ConnectionError | EOFError) or type(error).__name__.lower().endswith(
        ("connectionerror", "connecterror", "disconnected", "disconnectederror")
    ):
        return "NETWORK_ERROR", ErrorClass.RETRYABLE
    return "UNKNOWN", ErrorClass.UNKNOWN


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except BaseException:  # noqa: BLE001 - whatever a property of somebody's exception does
        return None


def _status(error: BaseException) -> int | None:
    for holder in (_attribute(error, "response"), error):
        if holder is None:
            continue
        for name in ("status_code", "status", "code"):
            value = _attribute(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return value
    return None


def _retry_after(error: BaseException, now: datetime) -> float | None:
    own = _attribute(error, "retry_after")
    if own is not None and (found := retry_after_s(own, now)) is not None:
        return found
    for holder in (_attribute(error, "response"), error):
        headers = _attribute(holder, "headers")
        get = _attribute(headers, "get")
        if not callable(get):
            continue
        for name in ("Retry-After", "retry-after"):
            try:
                value = get(name)
            except BaseException:  # noqa: BLE001 - somebody's mapping
                value = None
            if value is not None:
                return retry_after_s(value, now)
    return None
