"""How long to wait before the next attempt. Capped before it is computed; chance is an argument."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.domain.durations import Duration, seconds
from fencepost.domain.limits import LEAST_BACKOFF_S, LONGEST_BACKOFF_S
from fencepost.errors import UsageError

DEFAULT = (30.0, 120.0, 600.0, 1800.0)
_MOST_WAITS = 100


@dataclass(frozen=True, slots=True)
class Exponential:
    """``base * factor ** (attempt - 1)``, at most ``cap``. Durations as everywhere; UsageError names a wrong field.

    The exponent is capped before the power is taken: attempt 100,000 waits for ``cap``, and overflows nothing.
    """

    base: Duration = 30.0
    factor: float = 4.0
    cap: Duration = 1800.0

    def __post_init__(self) -> None:
        for field in ("base", "cap"):
            try:
                length = seconds(getattr(self, field))
            except ValueError as error:
                message = f"Exponential {field}: {error}"
                raise UsageError(message) from None
            if not LEAST_BACKOFF_S <= length <= LONGEST_BACKOFF_S:
                message = f"Exponential {field} must lie between 1 ms and 365 days, not {length:g} s"
                raise UsageError(message)
        if seconds(self.cap) < seconds(self.base):
            message = "Exponential cap must be at least base"
            raise UsageError(message)
        factor: Any = self.factor
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 1000:
            message = f"Exponential factor must be a number from 1 to 1000, not {factor!r:.40}"
            raise UsageError(message)

    def __call__(self, attempt: int) -> float:
        """Seconds after this attempt, the first being 1."""
        base, cap = seconds(self.base), seconds(self.cap)
        if self.factor == 1:
            return base
        # log1p: a factor of 1.0000001 would otherwise lose its digits
        enough = math.ceil(math.log(cap / base) / math.log1p(self.factor - 1)) + 1
        return float(min(cap, base * self.factor ** min(max(attempt, 1) - 1, enough)))


Backoff = str | Sequence[Duration] | Exponential | Callable[[int], float]


def curve(backoff: Backoff) -> Callable[[int], float]:
    """The function attempt (1, 2, ...) -> seconds that ``backoff`` means. Raises UsageError naming ``backoff``."""
    if callable(backoff):
        return backoff
    if isinstance(backoff, bytes) or not isinstance(backoff, str | Sequence):
        message = (
            "backoff must be text such as '30s, 2m', a list of waits, Exponential(...) or a function of the attempt, "
            f"not {type(backoff).__name__}"
        )
        raise UsageError(message)
    parts: Sequence[Duration] = (
        [p for p in backoff.split(",") if p.strip()] if isinstance(backoff, str) else list(backoff)
    )
    try:
        waits = [seconds(part) for part in parts[: _MOST_WAITS + 1]]
    except ValueError as error:
        message = f"backoff: {error}"
        raise UsageError(message) from None
    if not 0 < len(waits) <= _MOST_WAITS or not all(LEAST_BACKOFF_S <= wait <= LONGEST_BACKOFF_S for wait in waits):
        message = "backoff must list 1 to 100 waits between 1 ms and 365 days, such as '30s, 2m, 10m, 30m'"
        raise UsageError(message)
    return lambda attempt: waits[min(max(attempt, 1), len(waits)) - 1]


def delay_for(wait: Callable[[int], float], attempt: int, jitter: float, rng: random.Random) -> float:
    """Seconds before attempt ``attempt + 1``: 1 ms to 365 days, spread by +-``jitter``.

    A user's function that raises or answers no finite, non-negative number gets the default curve: a retry is never
    lost to it, nor does it come at once.
    """
    try:
        base = float(wait(attempt))
    except Exception:  # noqa: BLE001 - a user's function
        base = math.nan
    if not math.isfinite(base) or base < 0:
        base = DEFAULT[min(max(attempt, 1), len(DEFAULT)) - 1]
    spread = min(base, LONGEST_BACKOFF_S) * (1.0 + rng.uniform(-jitter, jitter))
    return min(max(spread, LEAST_BACKOFF_S), LONGEST_BACKOFF_S)
