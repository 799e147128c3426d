"""How long to wait before the next attempt. Capped before it is computed; chance is an argument."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fencepost.domain.durations import Duration, seconds
from fencepost.domain.limits import LONGEST_BACKOFF_S
from fencepost.errors import UsageError

LEAST_S = 0.001
DEFAULT = (30.0, 120.0, 600.0, 1800.0)


@dataclass(frozen=True, slots=True)
class Exponential:
    """``base * factor ** (attempt - 1)``, at most ``cap``. Durations as everywhere."""

    base: Duration = 30.0
    factor: float = 4.0
    cap: Duration = 1800.0

    def __post_init__(self) -> None:
        try:
            ends = seconds(self.base), seconds(self.cap)
        except ValueError as error:
            message = f"Exponential: {error}"
            raise UsageError(message) from None
        if ends[0] <= 0 or ends[1] < ends[0] or not 1.0 <= self.factor <= 1000.0:
            message = "Exponential: base must be above 0, cap at least base, and factor between 1 and 1000"
            raise UsageError(message)

    def __call__(self, attempt: int) -> float:
        """Seconds to wait after this attempt."""
        base, cap = seconds(self.base), seconds(self.cap)
        if self.factor == 1.0:
            return base
        steps = min(attempt - 1, math.ceil(math.log(cap / base, self.factor)) + 1)
        return float(min(cap, base * self.factor**steps))


Backoff = str | Sequence[Duration] | Exponential | Callable[[int], float]


def curve(backoff: Backoff) -> Callable[[int], float]:
    """The function attempt (1, 2, ...) -> seconds that ``backoff`` means. Raises UsageError naming ``backoff``."""
    if callable(backoff):
        return backoff
    parts: Sequence[Duration] = (
        [p for p in backoff.split(",") if p.strip()] if isinstance(backoff, str) else list(backoff)
    )
    try:
        waits = [seconds(part) for part in parts]
    except (ValueError, TypeError) as error:
        message = f"backoff: {error}"
        raise UsageError(message) from None
    if not waits or len(waits) > 100 or any(wait <= 0 or wait > LONGEST_BACKOFF_S for wait in waits):
        message = "backoff must list 1 to 100 waits between 1 ms and a year, such as '30s, 2m, 10m, 30m'"
        raise UsageError(message)
    return lambda attempt: waits[min(max(attempt, 1), len(waits)) - 1]


def delay_for(wait: Callable[[int], float], attempt: int, jitter: float, rng: random.Random) -> float:
    """Seconds before attempt ``attempt + 1``: never 0, at most a year, spread by +-``jitter``.

    A user's function that raises or answers nonsense gets the default curve: a retry is never lost to it.
    """
    try:
        base = float(wait(attempt))
    except Exception:  # noqa: BLE001 - a user's function
        base = math.nan
    if not math.isfinite(base) or base < 0:
        base = DEFAULT[min(max(attempt, 1), len(DEFAULT)) - 1]
    spread = base * (1.0 + rng.uniform(-jitter, jitter))
    return min(max(spread, LEAST_S), LONGEST_BACKOFF_S)
