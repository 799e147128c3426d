"""What a fault sees: the ground, the crew, and who runs what just now."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from fencepost.testing.torture.crew import Crew, Squad
from fencepost.testing.torture.ground import Ground
from fencepost.testing.torture.settings import Settings

_NAMED = 60
_RUNNING = """
SELECT j.job_id, w.pid, j.task FROM fencepost_torture.running r
  JOIN fencepost_torture.worker w ON w.token = r.token JOIN fencepost_torture.job j ON j.id = r.id
 WHERE r.cancel_at IS NULL AND coalesce(r.heartbeat_at, r.claimed_at) > clock_timestamp() - interval '1 s'"""


@dataclass(frozen=True, slots=True)
class Run:
    """A job that somebody runs just now."""

    job_id: str
    pid: int
    task: str


@dataclass(frozen=True, slots=True)
class Hit:
    """What a fault has struck.

    ``running`` are the jobs that ran there; ``["-"]`` where that makes no sense. ``frozen``: processes that stand still.
    """

    target: str
    running: list[str]
    note: str = ""
    frozen: tuple[int, ...] = ()

    @classmethod
    def of(cls, target: str, runs: list[Run], note: str = "") -> Hit:
        """On these runs, or the first of them if there are many."""
        return cls(target, [run.job_id for run in runs[:_NAMED]], note)


@dataclass
class World:
    """Shared by all faults, from several threads."""

    ground: Ground
    crew: Crew
    settings: Settings
    dice: random.Random
    over: threading.Event = field(default_factory=threading.Event)
    client: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever troubles the client's door."""
    _taken: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, seconds: float) -> None:
        """Let a fault last; at the end of all faults it is cut short."""
        self.over.wait(seconds)

    @contextlib.contextmanager
    def admin(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection past all doors."""
        conn = self.ground.admin()
        try:
            yield conn
        finally:
            conn.close()

    def runs(self) -> list[Run]:
        """What runs by the database's word, on workers that have beaten within the last second; empty without one."""
        with contextlib.suppress(psycopg.Error), self.admin() as conn:
            return [Run(*row) for row in conn.execute(_RUNNING).fetchall()]
        return []

    @contextlib.contextmanager
    def squad(self, *, slow: bool = False) -> Iterator[tuple[Squad | None, list[Run]]]:
        """A squad that no other fault has, with what its worker processes run: one that runs something, if there is any.

        ``slow``: one with a slow body. None if there is none.
        """
        runs = self.runs()
        with self._lock:
            free = [squad for squad in self.crew.squads if squad.number not in self._taken]
            self.dice.shuffle(free)
            found: Squad | None = None
            theirs: list[Run] = []
            for squad in free:
                pids = set(squad.children())
                mine = [run for run in runs if run.pid in pids]
                if any(run.task == "slow" for run in mine) if slow else mine:
                    found, theirs = squad, mine
                    self._taken.add(squad.number)
                    break
        try:
            yield found, theirs
        finally:
            if found is not None:
                with self._lock:
                    self._taken.discard(found.number)

    def leader(self) -> Squad | None:
        """The squad whose supervisor leads, by the newest epoch in its log."""
        epochs = [(squad.newest_epoch(), squad.number, squad) for squad in self.crew.squads]
        newest = max(epochs, default=None)
        return newest[2] if newest is not None and newest[0] else None
