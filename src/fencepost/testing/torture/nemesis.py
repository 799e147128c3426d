"""When which fault strikes: kinds from a shuffled bag, a few at a time, never two that would undo each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fencepost.errors import FencepostError, UsageError
from fencepost.testing.torture import databases, networks, processes
from fencepost.testing.torture.ground import Ground, OwnGround
from fencepost.testing.torture.notes import Notes
from fencepost.testing.torture.world import Hit, World


class Kind(NamedTuple):
    """One kind of fault. ``share``: how often it is in the bag. ``alone``: at most one of this group at a time."""

    name: str
    act: Callable[[World], Iterator[Hit]]
    share: int
    alone: str | None = None
    own: bool = False  # needs a server of ours
    clock: bool = False  # needs a clock of ours
    disk: bool = False  # needs a disk of ours


KINDS = (
    Kind("kill-worker", processes.kill_worker, 5),
    Kind("kill-supervisor", processes.kill_supervisor, 2),
    Kind("freeze-worker", processes.freeze_worker, 6),
    Kind("freeze-machine", processes.freeze_machine, 3),
    Kind("freeze-leader", processes.freeze_leader, 1, "leader"),
    Kind("stop-worker", processes.stop_squad, 2),
    Kind("network-frozen", networks.freeze_network, 3),
    Kind("half-open", networks.half_open, 2),
    Kind("connections-cut", networks.cut, 2),
    Kind("answers-lost", networks.lose_answers, 5),
    Kind("sessions-ended", databases.end_sessions, 4, "server"),
    Kind("locks-held", databases.hold_locks, 3),
    Kind("horizon-pinned", databases.pin_horizon, 1, "horizon"),
    Kind("connections-exhausted", databases.exhaust_connections, 2, "server", own=True),
    Kind("restart-fast", databases.restart_fast, 1, "server", own=True),
    Kind("restart-immediate", databases.restart_immediate, 1, "server", own=True),
    Kind("server-killed", databases.kill_server, 1, "server", own=True),
    Kind("failover", databases.fail_over, 1, "server", own=True),
    Kind("failover-forgetful", databases.fail_over_forgetful, 1, "server", own=True),
    Kind("clock-stepped", databases.step_clock, 1, "server", own=True, clock=True),
    Kind("disk-full", databases.fill_disk, 1, "server", own=True, disk=True),
)


def choose(wanted: Sequence[str], ground: Ground) -> list[Kind]:
    """The kinds to use: those named, or all that are possible here. UsageError for one that is not."""
    possible = [kind for kind in KINDS if _is_possible(kind, ground)]
    names = [kind.name for kind in possible]
    for name in wanted:
        if name not in names:
            known = ", ".join(names)
            raise UsageError(f"--faults: {name!r} is not possible here; choose from {known}")
    return [kind for kind in possible if not wanted or kind.name in wanted]


def _is_possible(kind: Kind, ground: Ground) -> bool:
    if not isinstance(ground, OwnGround):
        return not kind.own
    return (ground.has_clock or not kind.clock) and (ground.has_disk or not kind.disk)


class Nemesis:
    """Strikes until it is told to end; whatever it did is lifted then."""

    def __init__(self, world: World, kinds: Sequence[Kind], folder: Path) -> None:
        self._world, self._kinds = world, list(kinds)
        self._notes = Notes(folder / "faults.jsonl")
        self._bag: list[Kind] = []
        self._alone: set[str] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)
        self.landed = 0
        self.failure: str | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """No more faults; all that last are lifted when this returns."""
        self._world.over.set()
        self._thread.join()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        pause = self._world.settings.faults_every
        while not self._world.over.wait(pause * self._world.dice.uniform(0.6, 1.4)):
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            kind = self._next() if len(self._threads) < self._world.settings.faults_at_once else None
            if kind is not None:
                thread = threading.Thread(target=self._strike, args=(kind,), name=kind.name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _next(self) -> Kind | None:
        if not self._bag:
            self._bag = [kind for kind in self._kinds for _ in range(kind.share)]
            self._world.dice.shuffle(self._bag)
        with self._lock:
            for n, kind in enumerate(self._bag):
                if kind.alone is None or kind.alone not in self._alone:
                    if kind.alone is not None:
                        self._alone.add(kind.alone)
                    return self._bag.pop(n)
        return None

    def _strike(self, kind: Kind) -> None:
        began = time.monotonic()
        hit: Hit | None = None
        try:
            for struck in kind.act(self._world):
                hit = struck
        except FencepostError as error:
            self.failure = f"{kind.name}: {error}"
        finally:
            if kind.alone is not None:
                with self._lock:
                    self._alone.discard(kind.alone)
        self.landed += hit is not None
        told = hit or Hit("", [])
        self._notes.add(
            t=began,
            until=time.monotonic(),
            kind=kind.name,
            landed=hit is not None,
            target=told.target,
            running=told.running,
            frozen=told.frozen,
            note=told.note,
        )
