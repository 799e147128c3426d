"""Runs duties in turns on one connection, so that a duty that fails stops neither itself nor the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fencepost.errors import SchemaError, UnsupportedDatabaseError
from fencepost.store import faults

log = logging.getLogger("fencepost.leader")

_PAUSE_S = 0.2
"""At least so long between two tries of what failed."""


class Turn(NamedTuple):
    """What one turn did. ``more``: the bound was reached, so the next turn may come at once."""

    done: int
    more: bool = False


class Duty(Protocol):
    """What is done once per cluster. A turn is bounded, safe beside another leader's, and may be cut off anywhere."""

    name: str
    period_s: float

    def run_turn(self) -> Turn:
        """Do a bounded part of the work. Raises what the database raises."""


@dataclass(slots=True)
class _Entry:
    duty: Duty
    due: float = 0.0
    troubled: bool = False


class Outage:
    """One episode in which the database cannot be reached: logged when it begins and when it is over (SPEC W4)."""

    def __init__(self) -> None:
        self._lasts = False

    def begins(self, error: Exception) -> None:
        """A call met a connection that is of no use."""
        if not self._lasts:
            self._lasts = True
            log.warning("the leader cannot reach the database and will try again: %s", faults.explain(error))

    def is_over(self) -> None:
        """A call was answered."""
        if self._lasts:
            self._lasts = False
            log.info("the leader reaches the database again")


class Lane:
    """The duties of one connection, each at its own period."""

    def __init__(
        self, duties: Sequence[Duty], *, own: Callable[[], float], outage: Outage, broke: Callable[[], None]
    ) -> None:
        self._entries = [_Entry(duty) for duty in duties]
        self._own = own
        self._outage = outage
        self._broke = broke

    def start_over(self) -> None:
        """Everything is due: a newcomer first clears what went stale (SPEC S3)."""
        for entry in self._entries:
            entry.due = 0.0

    def run_due(self, may_run: Callable[[], bool]) -> float:
        """Run what is due while ``may_run``; answer the seconds until something is due again.

        A failure is logged once per episode and tried again at the next period; after a lost connection the rest of the
        round waits too. An error that trying again cannot mend (no schema) is raised.
        """
        for entry in self._entries:
            if entry.due > self._own():
                continue
            if not may_run():
                break
            if not self._run(entry):
                break
        return max(0.0, min(entry.due for entry in self._entries) - self._own())

    def _run(self, entry: _Entry) -> bool:
        """Whether the lane may go on with the next duty."""
        try:
            turn = entry.duty.run_turn()
        except Exception as error:  # noqa: BLE001 - no duty may stop the others
            entry.due = self._own() + max(entry.duty.period_s, _PAUSE_S)
            return self._failed(entry, error)
        self._outage.is_over()
        if entry.troubled:
            entry.troubled = False
            log.info("the duty %s works again", entry.duty.name)
        entry.due = self._own() + (0.0 if turn.more else entry.duty.period_s)
        return True

    def _failed(self, entry: _Entry, error: Exception) -> bool:
        meaning = faults.translate(error)
        if isinstance(meaning, SchemaError | UnsupportedDatabaseError):
            raise meaning from error
        if faults.needs_reconnect(error):
            self._outage.begins(error)
            self._broke()
            for other in self._entries:
                other.due = max(other.due, self._own() + _PAUSE_S)
            return False
        if not entry.troubled:
            entry.troubled = True
            say = log.warning if faults.is_transient(error) else log.error
            say("the duty %s failed and will be tried again: %s", entry.duty.name, faults.explain(error))
        return True
