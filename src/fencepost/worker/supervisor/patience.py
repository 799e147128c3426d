"""Two small counts, without a process in them: how often we were told to stop, and how often a child may die."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

SAME_PRESS_S = 0.2
"""A second signal within this time is the same press, delivered twice (by a terminal and a wrapper)."""

MINUTE_S = 60.0
DEATHS_A_MINUTE = 5
CRASHES_A_MINUTE = 20
_FIRST_DELAY_S = 0.25
_LONGEST_DELAY_S = 5.0


@dataclass(slots=True)
class Stops:
    """Stop signals, counted: the first drains, the second hands back now, more change nothing."""

    calls: int = 0
    _last: float = 0.0

    def heard(self, now: float) -> bool:
        """Count one at ``now`` (seconds); False: it was the same press again."""
        if self.calls and now - self._last < SAME_PRESS_S:
            return False
        self.calls += 1
        self._last = now
        return True


@dataclass(slots=True)
class Respawn:
    """Deaths of one child's place.

    A death while a body ran is the job's doing as a rule: it is counted there (``max_crashes``) and only slows us down.
    Deaths without any running body, five in a minute, mean that the service itself is broken. So do twenty of any kind.
    """

    _deaths: deque[tuple[float, bool]] = field(default_factory=deque)

    def died(self, now: float, *, in_body: bool) -> float | None:
        """Count a death that we did not order; the seconds to wait before the next start, None: give up."""
        self._deaths.append((now, in_body))
        while self._deaths and now - self._deaths[0][0] > MINUTE_S:
            self._deaths.popleft()
        blameless = sum(not body for _, body in self._deaths)
        if blameless >= DEATHS_A_MINUTE or len(self._deaths) >= CRASHES_A_MINUTE:
            return None
        if len(self._deaths) == 1:
            return 0.0
        return float(min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** (len(self._deaths) - 2)))
