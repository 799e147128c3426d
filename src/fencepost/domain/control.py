"""What a handler, or code deep below it, raises to steer its own job. Control flow, not errors.

    raise RetryLater(30)                 run again in 30 s; an attempt is spent
    raise Snooze(300)                    run again in 5 min; no attempt is spent (bounded, SPEC R3)
    raise RateLimited(retry_after=20)    the provider asked us to slow down; no attempt is spent (bounded)
    raise Permanent("no such card")      failed at once, no retry
    raise Skip("order was deleted")      a normal ending: the job lost its meaning (SPEC L6)
    raise InDoubt("timeout after send")  the effect may have happened; a reconciler or a person decides (SPEC L7)
    raise Cancelled()                    ends ``cancelled``

Each carries a ``code`` for counting and an optional text. Codes that fencepost itself gives are reserved (SPEC R1): a
subclass that claims one is refused when it is defined, and one given to ``raise`` is replaced by the class's own code,
since a wrong label must not turn an ``InDoubt`` into a retry. Subclasses need not call ``__init__``.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from fencepost.domain.durations import Duration, seconds
from fencepost.domain.failure import usable_code
from fencepost.errors import UsageError

Delay = Duration
"""Seconds, a timedelta, or a text such as ``"5m"``, as everywhere else."""


def seconds_of(value: Delay, name: str) -> float:
    """The delay in seconds. Negative, not a number, or no delay at all: a ``ValueError`` that names the field.

    Without an upper bound: the storage takes ten years for whatever is longer, since a body that asks for too much has
    still decided what is to become of its job.
    """
    try:
        if isinstance(value, str):
            number = seconds(value)
        else:
            number = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except ValueError as error:
        message = str(error).replace("a duration", name, 1)
        raise ValueError(message) from error
    except (TypeError, OverflowError) as error:
        message = f"{name} must be seconds, a timedelta or text such as '5m', not {type(value).__name__}"
        raise ValueError(message) from error
    if math.isnan(number) or number < 0:
        message = f"{name} must be zero or more seconds, not {number}"
        raise ValueError(message)
    return number


class Control(Exception):  # noqa: N818 - control flow, not an error
    """The root of what steers a job. Never caught by ``except FencepostError``."""

    code: str = ""
    text: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not usable_code(cls.code):
            message = (
                f"{cls.__name__}.code: {str(cls.code)[:80]!r} is no code or one of fencepost's own; choose another"
            )
            raise UsageError(message)

    def __init__(self, text: str = "", *, code: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        if code is not None and usable_code(code):
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        # not by way of __init__, whose arguments are not kept: raised in a process pool, it must come out as what it is
        return _restored, (type(self), self.args, dict(vars(self)))


def _restored(kind: type[Control], args: tuple[Any, ...], state: dict[str, Any]) -> Control:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class RetryLater(Control):
    """Run again after ``delay`` (seconds, timedelta or text such as "5m"); None: by the task's backoff. An attempt is spent."""

    code = "RETRY_LATER"
    delay_s: float | None = None

    def __init__(self, delay: Delay | None = None, text: str = "", *, code: str | None = None) -> None:
        super().__init__(text, code=code)
        self.delay_s = None if delay is None else seconds_of(delay, "delay")


class Snooze(Control):
    """Run again after ``delay``; no attempt is spent, up to the bound of unpaid snoozes (SPEC R3)."""

    code = "SNOOZED"
    delay_s: float = 0.0

    def __init__(self, delay: Delay, text: str = "", *, code: str | None = None) -> None:
        super().__init__(text, code=code)
        self.delay_s = seconds_of(delay, "delay")


class RateLimited(Control):
    """A provider said "slow down". ``retry_after``: seconds, timedelta, an aware datetime, or a Retry-After header's text.

    A short pause (up to 5 s) is waited out in the slot; a long one gives the slot back. Neither spends an attempt
    until the bound of unpaid pauses is used up (SPEC R3). Without ``retry_after`` the task's backoff decides the delay.
    """

    code = "RATE_LIMITED"
    retry_after: Delay | datetime | str | None = None

    def __init__(
        self, retry_after: Delay | datetime | str | None = None, text: str = "", *, code: str | None = None
    ) -> None:
        super().__init__(text, code=code)
        self.retry_after = retry_after


class Permanent(Control):
    """Failed at once: no retry can help (SPEC R4)."""

    code = "PERMANENT"


class Skip(Control):
    """Ends ``skipped``: the job lost its meaning. Not an error, never retried, never alerts by itself (SPEC L6)."""

    code = "SKIPPED"


class InDoubt(Control):
    """Ends ``in_doubt``: the outside effect may or may not have happened (SPEC L7)."""

    code = "IN_DOUBT"


class Cancelled(Control):
    """Ends ``cancelled``; also what ``job.check()`` raises after a cancel request (SPEC W8)."""

    code = "CANCELLED"
