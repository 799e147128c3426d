"""What the leader asks of the database: each duty by itself, and the leader as a whole, turn by turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from fencepost.duty.leader import Leader
from fencepost.duty.settings import DutySettings
from fencepost.store import duties, workers
from fencepost.store.flow import Flow, Stmt
from points.enqueuing import new
from points.operations import Operation, World
from points.working import both, calling, places, there
from waiting import eventually

LEADER = 11

# ------------------------------------------------------------------------------------------------------------ the worlds


def _expired(world: World) -> None:
    world.put(*(new(name) for name in "ab"))
    world.witness.ask("update fencepost.ready set start_by = now() - interval '1 s'")


def _purgeable(world: World) -> None:
    world.put(*(new(name) for name in "ab"))
    world.end(world.claim(7), "succeed")
    world.witness.ask("update fencepost.outcome set purge_at = now() - interval '1 s'")
    world.acknowledged.clear()  # what is over and out of its time may go


def _known_by_now(world: World) -> None:
    world.put(*(new(name) for name in "ab"))
    world.end(world.claim(7), "park")
    world.plain(workers.register(world.sql, 7, "h", 1, {"t": 1}))


def _miscounted(world: World) -> None:
    """Two wait behind a limit of one that nobody uses any more."""
    world.put(*(new(name, concurrency_key="g") for name in "ab"))
    (first,) = world.claim(7)
    world.claim(7)
    world.end([first], "succeed")
    world.witness.ask("update fencepost.gate set used = 5")


def _mended(world: World) -> Iterator[str]:
    if world.given_up:
        world.plain(duties.recount_gates(world.sql, 100))  # the fault in the count was the test's own
    yield from there("select count(*) from fencepost.fsck", 0)(world)


def _idle_gate(world: World) -> None:
    world.put(new("a", concurrency_key="g"))
    world.end(world.claim(7), "succeed")


def _old_worker(world: World) -> None:
    world.plain(workers.register(world.sql, 7, "h", 1, {"t": 1}))
    world.witness.ask("update fencepost.worker set heartbeat_at = now() - interval '9 d'")


def _led(world: World) -> None:
    world.plain(duties.lead(world.sql, LEADER, 30.0, None))


def _much_to_do(world: World) -> None:
    """Something for every duty: one is stale, one due, one expired, one parked and known by now, one to be purged."""
    _known_by_now(world)  # a, b
    world.put(new("purge"))
    world.end(world.claim(8), "succeed")
    world.witness.ask("update fencepost.outcome set purge_at = now() - interval '1 s'")
    world.acknowledged.discard("purge")
    world.put(new("stale"))
    world.claim(8)
    world.witness.ask("update fencepost.running set claimed_at = now() - interval '1 h'")
    world.put(new("due", delay_s=60.0), new("expired"))
    world.witness.ask("update fencepost.delayed set run_at = now() - interval '1 s'")
    world.witness.ask("update fencepost.ready set start_by = now() - interval '1 s'")
    world.witness.ask("insert into fencepost.gate (ckey, used) values ('g', 3)")
    world.witness.ask("insert into fencepost.worker (token, heartbeat_at) values (55, now() - interval '9 d')")


DONE = {"a": "queued", "b": "queued", "stale": "queued", "due": "queued", "expired": "skipped"}


def _lead(world: World) -> None:
    """Turns of a leader until everything is done: two, when nothing goes wrong. It is never started as a thread."""
    settings = DutySettings(lease=30.0, heartbeat_interval=0.01, vacuum_after=1_000_000_000)
    leader = Leader(world.dsn, world.sql, settings, threading.Event(), token=LEADER)

    def turn() -> bool:
        leader._renew_at = 0.0
        leader._fast.start_over()
        leader._slow.start_over()
        leader._turn()
        leader._slow.run_due(lambda: leader.leading)
        return _is_done(world)

    with world.faults():
        turn()
        eventually(turn, every=0.005)
        leader._resign()
    world.notes["error"] = leader.error
    leader._wire.close()
    leader._slow_wire.close()


def _is_done(world: World) -> bool:
    gates = world.witness.ask("select from fencepost.gate where used <> 0")
    old = world.witness.ask("select from fencepost.worker where token = 55")
    return world.witness.states() == DONE and not gates and not old


def _has_led(world: World) -> Iterator[str]:
    if world.notes["error"]:
        yield f"the leader ended: {world.notes['error']}"
    epochs = world.witness.ask("select epoch from fencepost.leader")
    if epochs not in ([(1,)], []):
        yield f"one leader, and the epoch is {epochs}"


def _vacuum(table: str) -> Operation:
    def ask(world: World) -> Flow[Any]:
        def flow() -> Flow[Any]:
            return (yield Stmt(duties.vacuum(world.sql, table).sql))

        return flow()

    return Operation(f"vacuum {table}", calling(ask))


OPERATIONS = [
    Operation("lead", calling(lambda w: duties.lead(w.sql, LEADER, 30.0, None), warm=False),
              at_once=both(there("select epoch from fencepost.leader", 1), there("select token from fencepost.leader", LEADER))),
    Operation("resign", calling(lambda w: duties.resign(w.sql, LEADER)), given=_led,
              at_once=there("select count(*) from fencepost.leader where expires_at > clock_timestamp()", 0)),
    Operation("evidence", calling(lambda w: duties.evidence(w.sql), warm=False), given=_old_worker),
    Operation("expire", calling(lambda w: duties.expire(w.sql, 100), turns=True), given=_expired,
              at_once=places(a="skipped 0/0", b="skipped 0/0")),
    Operation("purge", calling(lambda w: duties.purge(w.sql, 100), turns=True), given=_purgeable,
              at_once=both(places(), there("select sum(n) from fencepost.daily", 2))),
    Operation("wake_known", calling(lambda w: duties.wake_known(w.sql, 100), turns=True), given=_known_by_now,
              at_once=places(a="queued 0/1", b="queued 0/1")),
    Operation("recount_gates", calling(lambda w: duties.recount_gates(w.sql, 100), turns=True), given=_miscounted,
              at_once=both(places(a="succeeded 1/1", b="queued 0/0"), _mended)),
    Operation("sweep_gates", calling(lambda w: duties.sweep_gates(w.sql, 100), turns=True), given=_idle_gate),
    Operation("forget_workers", calling(lambda w: duties.forget_workers(w.sql, 86400.0, 100), turns=True), given=_old_worker,
              at_once=there("select count(*) from fencepost.worker", 0)),
    Operation("vacuum_candidates", calling(lambda w: duties.vacuum_candidates(w.sql, 1), warm=False)),
    *(_vacuum(table) for table in duties._VACUUM),
    Operation("the leader as a whole", _lead, given=_much_to_do, at_once=_has_led, spared=("interrupted",)),
]  # fmt: skip
