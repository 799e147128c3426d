"""Faults of the database: restarts, a failover, sessions that end, locks, old snapshots, a clock that jumps."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import replace

import psycopg

from fencepost.testing.proxy import Proxy
from fencepost.testing.torture.ground import OwnGround
from fencepost.testing.torture.processes import descendants, send
from fencepost.testing.torture.world import Hit, Run, World

_END_HALF = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'fencepost%%' AND random() < %s"""
_LOCK = """
SELECT j.job_id FROM fencepost_torture.job j WHERE j.id IN (
  SELECT r.id FROM fencepost_torture.running r
   WHERE r.id IN (SELECT x.id FROM fencepost_torture.running x ORDER BY random() LIMIT 12)
   ORDER BY r.id FOR UPDATE)"""
_MUCH = "CREATE TABLE fencepost_torture_log.much AS SELECT repeat('x', 500) FROM generate_series(1, 20000)"
_MOST_CONNECTIONS = 300
_CLOCK_MOST_S = 8.0


def end_sessions(world: World) -> Iterator[Hit]:
    """pg_terminate_backend for half of our sessions."""
    runs = world.runs()
    with contextlib.suppress(psycopg.Error), world.admin() as conn:
        row = conn.execute(_END_HALF, [0.5]).fetchone()
        if row is not None and row[0]:
            yield Hit.of(f"{row[0]} sessions", runs)


def restart_fast(world: World) -> Iterator[Hit]:
    """A fast shutdown and a start."""
    yield from _restart(world, None)


def restart_immediate(world: World) -> Iterator[Hit]:
    """An immediate shutdown: the start is a recovery."""
    yield from _restart(world, signal.SIGQUIT)


def kill_server(world: World) -> Iterator[Hit]:
    """SIGKILL to the postmaster, and a start."""
    yield from _restart(world, signal.SIGKILL)


def fail_over(world: World) -> Iterator[Hit]:
    """The primary dies and its standby is promoted; everybody has both in the DSN."""
    assert isinstance(world.ground, OwnGround)
    runs = world.runs()
    took = world.ground.fail_over()
    yield Hit.of("the primary", runs, f"{took:.2f} s without a primary")


def fail_over_forgetful(world: World) -> Iterator[Hit]:
    """The standby has not heard of the last claims and outcomes: they never were, and those runs are nobody's.

    A squad that has made such claims stands still until others have made them again, and then ends its bodies at once.
    Clients hear no answer meanwhile: an enqueue that an asynchronous standby forgets would be PostgreSQL's loss.
    """
    assert isinstance(world.ground, OwnGround)
    door = world.crew.door
    with world.client, world.squad(slow=True) as (squad, _):
        pids = [] if squad is None else [squad.pid, *descendants(squad.pid)]
        runs: list[Run] = []

        def hush() -> None:
            door.each(Proxy.hold)
            door.each(Proxy.cut)

        def forget() -> None:
            world.wait(1.5)
            runs.extend(world.runs())
            pids[:] = [pid for pid in pids if send(signal.SIGSTOP, pid)]

        try:
            took = world.ground.fail_over(hush, forget)
            door.each(Proxy.cut)
            door.each(Proxy.release)
            world.wait(1.0)
        finally:
            door.each(Proxy.release)
            for pid in reversed(pids):
                send(signal.SIGCONT, pid)
        hit = Hit.of("the primary", runs, f"{took:.2f} s without a primary")
        yield replace(hit, frozen=tuple(pids))


def exhaust_connections(world: World) -> Iterator[Hit]:
    """Every connection that the server has is taken for a while, and a third of ours are ended first."""
    taken: list[psycopg.Connection[object]] = []
    runs = world.runs()
    try:
        with contextlib.suppress(psycopg.Error), world.admin() as conn:
            conn.execute(_END_HALF, [0.35])
        refused = False
        while len(taken) < _MOST_CONNECTIONS and not refused:
            try:
                taken.append(world.ground.admin())
            except psycopg.OperationalError:
                refused = True
        if refused:
            yield Hit.of("every connection", runs, f"{len(taken)} taken")
            world.wait(world.dice.uniform(0.5, 2.0))
    finally:
        for conn in taken:
            conn.close()


def hold_locks(world: World) -> Iterator[Hit]:
    """A transaction of somebody holds locks on rows of jobs that run."""
    with contextlib.suppress(psycopg.Error), world.admin() as conn:
        conn.execute("BEGIN")  # it ends with the connection
        names = [str(name) for (name,) in conn.execute(_LOCK).fetchall()]
        if names:
            yield Hit("rows of running", names)
            world.wait(world.dice.uniform(0.5, 2.5))


def pin_horizon(world: World) -> Iterator[Hit]:
    """An old snapshot keeps every dead row for a while."""
    with contextlib.suppress(psycopg.Error), world.admin() as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT count(*) FROM fencepost_torture.running")
        yield Hit("the horizon", ["-"])
        world.wait(6.0)


def fill_disk(world: World) -> Iterator[Hit]:
    """No room for another block: statements fail, and the server ends where it needs a new file for its log."""
    assert isinstance(world.ground, OwnGround)
    runs = world.runs()
    with world.ground.full_disk():
        why = ""
        with contextlib.suppress(psycopg.OperationalError), world.admin() as conn:
            try:
                conn.execute(f"BEGIN; {_MUCH}; ROLLBACK".encode())
            except psycopg.OperationalError as error:
                why = str(error).partition("\n")[0]
        if why:
            yield Hit.of("the servers' disk", runs, why)
            world.wait(world.dice.uniform(0.5, 3.0))


def step_clock(world: World) -> Iterator[Hit]:
    """The server's clock jumps, forward past a lease or back."""
    assert isinstance(world.ground, OwnGround)
    seconds = world.dice.choice([-1, 1]) * world.dice.uniform(world.settings.ttl * 1.5, _CLOCK_MOST_S)
    runs = world.runs()
    world.ground.set_clock(seconds)
    yield Hit.of("the server's clock", runs, f"{seconds:+.1f} s")
    world.wait(4.0)
    world.ground.set_clock(0)
    world.wait(1.5)


def _restart(world: World, how: signal.Signals | None) -> Iterator[Hit]:
    assert isinstance(world.ground, OwnGround)
    runs = world.runs()
    world.ground.restart(how)
    yield Hit.of("the server", runs)
