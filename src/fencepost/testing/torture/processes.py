"""Faults of processes: killed, frozen, told to stop."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fencepost.testing.torture.world import Hit, World


def kill_worker(world: World) -> Iterator[Hit]:
    """SIGKILL to a worker process that runs something."""
    with world.squad() as (squad, runs):
        if squad is not None and send(signal.SIGKILL, runs[0].pid):
            yield Hit.of(f"worker {runs[0].pid}", [run for run in runs if run.pid == runs[0].pid])


def kill_supervisor(world: World) -> Iterator[Hit]:
    """SIGKILL to a supervisor: its worker processes are alone, and another supervisor begins beside them."""
    with world.squad() as (squad, runs):
        if squad is not None:
            squad.expected = True
            if send(signal.SIGKILL, squad.pid):
                yield Hit.of(f"supervisor {squad.pid}", runs)
                world.wait(0.5)


def freeze_worker(world: World) -> Iterator[Hit]:
    """A worker process with a slow body, and its job processes, stop for longer than their leases, and go on unknowing."""
    with world.squad(slow=True) as (squad, runs):
        if squad is None:
            return
        pid = next(run.pid for run in runs if run.task == "slow")
        mine = [run for run in runs if run.pid == pid]
        yield from _freeze(world, [pid, *descendants(pid)], Hit.of(f"worker {pid}", mine))


def freeze_machine(world: World) -> Iterator[Hit]:
    """Supervisor and worker processes stop together, as a suspended machine does."""
    with world.squad(slow=True) as (squad, runs):
        if squad is not None:
            yield from _freeze(world, [squad.pid, *descendants(squad.pid)], Hit.of(f"squad {squad.number}", runs))


def freeze_leader(world: World) -> Iterator[Hit]:
    """The supervisor that leads stops for longer than its lease as leader; another one leads, and then there are two."""
    squad = world.leader()
    if squad is not None:
        yield from _freeze(world, [squad.pid], Hit(f"supervisor {squad.pid}", ["-"]))


def stop_squad(world: World) -> Iterator[Hit]:
    """SIGTERM to a supervisor, as a deploy does; another one begins when it has ended."""
    with world.squad() as (squad, runs):
        if squad is not None:
            yield Hit.of(f"supervisor {squad.pid}", runs)
            world.crew.stop_squad(squad)


def _freeze(world: World, pids: list[int], hit: Hit) -> Iterator[Hit]:
    frozen = [pid for pid in pids if send(signal.SIGSTOP, pid)]
    if not frozen:
        return
    try:
        yield replace(hit, frozen=tuple(frozen))
        world.wait(world.settings.ttl * world.dice.uniform(1.3, 2.2))
    finally:
        for pid in reversed(frozen):
            send(signal.SIGCONT, pid)
    world.wait(0.3)  # it wakes before somebody else strikes it


def descendants(pid: int) -> list[int]:
    """All processes below one, the nearer first."""
    found = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (thread / "children").read_text().split()]
    return found + [below for child in found for below in descendants(child)]


def send(number: signal.Signals, pid: int) -> bool:
    """Send a signal; False if the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
