"""What the leader does: rescue, sweeps, retention, vacuum; each by its turn, on a real database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from duty.scene import QUICK, Scene, leading
from fencepost.domain.outcome import Settlement
from fencepost.duty.continuity import Continuity, boottime
from fencepost.duty.promoter import Promoter
from fencepost.duty.pruner import Pruner
from fencepost.duty.reaper import Reaper
from fencepost.duty.settings import DutySettings
from fencepost.duty.sweeper import GateKeeper, WorkerRows
from fencepost.duty.vacuum import Vacuumer
from fencepost.store import jobs
from fencepost.store.wire import Wire
from waiting import eventually, pause


def reaper(scene: Scene, own: Callable[[], float] = boottime, **settings: Any) -> Reaper:
    chosen = DutySettings(heartbeat_interval=1.0, **settings)
    return Reaper(scene.wire, scene.sql, chosen, Continuity(1.0, own=own), own)


@pytest.mark.spec("C6", "C10")
def test_the_lease_alone_decides_whatever_is_left_of_its_worker(scene: Scene) -> None:
    """STK-1: every trace of the worker is gone from the worker table."""
    scene.enqueue(3)
    worker = scene.worker()
    worker.claim()
    worker.die_long_ago()
    scene.ask("delete from fencepost.worker")

    turn = reaper(scene).run_turn()

    assert turn.done == 3
    assert set(scene.states().values()) == {"queued"}


@pytest.mark.spec("C7")
def test_a_dead_job_does_not_count_against_the_limit_that_gates_its_rescue(scene: Scene) -> None:
    """STK-2: limit 1 per key, and the only running one is dead."""
    scene.enqueue(2, concurrency_key="k")
    dead = scene.worker()
    assert len(dead.claim()) == 1
    dead.die_long_ago()

    reaper(scene).run_turn()
    Promoter(scene.wire, scene.sql, QUICK).run_turn()

    alive = scene.worker()
    eventually(alive.claim, within=3)
    assert len(alive.held) == 1


@pytest.mark.spec("C10")
def test_a_lease_that_is_beaten_is_left_alone(scene: Scene) -> None:
    scene.enqueue(1)
    worker = scene.worker()
    worker.claim()
    worker.die_long_ago()
    worker.beat()

    assert reaper(scene).run_turn().done == 0
    assert scene.left_running() == 1


def test_a_locked_lease_holds_nobody_up(scene: Scene) -> None:
    scene.enqueue(3)
    worker = scene.worker()
    held = worker.claim()
    worker.die_long_ago()
    with psycopg.connect(scene.dsn) as other:
        other.execute("select from fencepost.running where id = %s for update", (held[0].id,))

        begun = time.monotonic()
        done = reaper(scene).run_turn().done

        assert done == 2
        assert time.monotonic() - begun < 1


def test_interrupted_passes_strand_nobody(scene: Scene) -> None:
    """STK-5: the backend is ended again and again while 250 leases are taken back in batches of 10."""
    scene.enqueue(250)
    worker = scene.worker()
    worker.claim(250)
    worker.die_long_ago()
    settings = DutySettings(lease=1.5, reaper_period=0.05, heartbeat_interval=0.2, batch=10)
    with leading(scene, settings):
        for _ in range(10):
            eventually(lambda: scene.left_running() < 250, within=10)
            scene.ask(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", "fencepost leader"
            )

        eventually(lambda: scene.left_running() == 0, within=15)

    assert set(scene.states().values()) == {"queued"}


@pytest.mark.spec("C10")
@pytest.mark.parametrize("ahead_s", [3600, -3600], ids=["an hour ahead", "an hour behind"])
def test_the_clock_of_the_leaders_own_machine_means_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    scene.enqueue(2)
    live, dead = scene.worker(), scene.worker()
    live.claim(1, ttl_s=30)
    dead.claim(1, ttl_s=30)
    dead.die_long_ago(60)
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + ahead_s)

    turn = reaper(scene).run_turn()

    assert turn.done == 1
    assert live.beat() == {live.fences[0]: "ok"}
    assert dead.beat() == {dead.fences[0]: "lost"}


@pytest.mark.spec("C11")
def test_a_jump_of_the_databases_clock_costs_no_live_worker_its_lease(scene: Scene) -> None:
    """The jump is made by moving everything else: stored times and our own clock go back an hour."""
    behind = [0.0]
    judge = reaper(scene, own=lambda: boottime() - behind[0])
    scene.enqueue(2)
    live, dead = scene.worker(), scene.worker()
    live.claim(1, ttl_s=30)
    dead.claim(1, ttl_s=30)
    dead.die_long_ago()
    assert judge.run_turn().done == 1, "before the jump: only the dead one's"

    behind[0] = 3600.0
    live.die_long_ago(3600)
    good = judge._continuity._good
    assert good is not None
    judge._continuity._good = replace(good, at=good.at - timedelta(hours=1))
    jumped = judge.run_turn()
    live.beat()
    settled = judge.run_turn()

    assert jumped.done == 0
    assert settled.done == 0
    assert live.beat() == {live.fences[0]: "ok"}


class _Between:
    """A wire that lets something happen between the reaper's look at the service and its first batch."""

    def __init__(self, wire: Wire, happens: Callable[[], object]) -> None:
        self._wire, self._happens, self._calls = wire, happens, 0

    def run(self, flow: Any) -> Any:
        self._calls += 1
        if self._calls == 2:
            self._happens()
        return self._wire.run(flow)


@pytest.mark.spec("C11")
def test_what_comes_after_the_look_is_no_evidence(scene: Scene) -> None:
    """A clock that jumps, or a server that stands still, between the look and the batch: found by torture's clock."""
    scene.enqueue(1)
    worker = scene.worker()
    worker.claim(ttl_s=0.3)
    lost = "select lost from fencepost.lease"
    wire: Any = _Between(scene.wire, lambda: eventually(lambda: scene.one(lost)))
    judge = Reaper(wire, scene.sql, DutySettings(heartbeat_interval=1.0), Continuity(1.0, own=boottime), boottime)
    assert not scene.one(lost), "given: a lease that is good when the reaper looks"

    assert judge.run_turn().done == 0
    assert scene.one(lost), "and stale when the batch comes"
    assert judge.run_turn().done == 1, "the next look has seen it"


@pytest.mark.spec("C11")
def test_after_a_restart_a_live_worker_keeps_its_lease_and_a_dead_ones_goes_at_once(
    own_scene: tuple[Scene, Any],
) -> None:
    scene, server = own_scene
    settings = DutySettings(lease=1.5, heartbeat_interval=1.0, reaper_period=0.1, promoter_period=0.1)
    scene.enqueue(2)
    live, dead = scene.worker(), scene.worker()
    live.claim(1, ttl_s=1.0)
    with leading(scene, settings) as leader:
        eventually(lambda: leader.leading)
        live.beat()
        eventually(lambda: scene.leader_row()[2])
        eventually(lambda: leader._continuity.record is not None)
        dead.claim(1, ttl_s=1.0)
        dead.die_long_ago()
        live.beat()

        server.stop("fast")
        pause(1.5)  # longer than the ttl: every lease is stale now
        server.start()
        scene.wire.close()

        eventually(lambda: scene.left_running() == 1, within=10)
        assert set(live.beat().values()) == {"ok"}
        for _ in range(4):
            pause(0.4)
            assert set(live.beat().values()) == {"ok"}
    rows = scene.ask("select how from fencepost.runs where token = %s", live.token)
    assert rows == [("running",)]


@pytest.mark.spec("C11")
def test_after_a_restart_a_worker_that_stays_silent_gets_two_intervals_and_no_more(
    own_scene: tuple[Scene, Any],
) -> None:
    scene, server = own_scene
    settings = DutySettings(lease=1.5, heartbeat_interval=1.0, reaper_period=0.1, promoter_period=0.1)
    scene.enqueue(1)
    worker = scene.worker()
    worker.claim(1, ttl_s=1.0)
    with leading(scene, settings) as leader:
        eventually(lambda: leader._continuity.record is not None)
        worker.beat()

        server.stop("fast")
        pause(1.5)
        server.start()
        started = time.monotonic()

        eventually(lambda: scene.left_running() == 0, within=10)

    assert time.monotonic() - started >= 1.5, "its lease was stale at once, but it had the right to come back"


@pytest.mark.spec("C11", "S3")
def test_a_newcomer_learns_of_the_restart_from_what_its_predecessor_left(own_scene: tuple[Scene, Any]) -> None:
    scene, server = own_scene
    settings = DutySettings(lease=0.6, heartbeat_interval=2.0, reaper_period=0.1, promoter_period=0.1)
    scene.enqueue(1)
    worker = scene.worker()
    worker.claim(1, ttl_s=1.0)
    with leading(scene, settings):
        eventually(lambda: scene.one("select exists (select from fencepost.leader where good_at is not null)"))
        worker.beat()
        eventually(
            lambda: scene.one(
                "select good_at > max(heartbeat_at) from fencepost.leader, fencepost.worker group by good_at"
            )
        )

    server.stop("fast")
    pause(1.2)
    server.start()
    scene.wire.close()
    with leading(scene, settings) as newcomer:
        eventually(lambda: newcomer._continuity.waiting_because == "the server was started")
        pause(0.5)

        assert set(worker.beat().values()) == {"ok"}


def test_rows_of_long_dead_processes_go_and_live_ones_stay(scene: Scene) -> None:
    old, fresh = scene.worker(), scene.worker()
    old.die_long_ago(100)
    settings = DutySettings(worker_row_age=50.0)

    WorkerRows(scene.wire, scene.sql, settings, Continuity(5.0)).run_turn()

    assert scene.ask("select token from fencepost.worker") == [(fresh.token,)]


def test_after_an_outage_no_row_goes_until_live_workers_had_time_to_beat(scene: Scene) -> None:
    """The database was away for longer than rows are kept: all of them are old."""
    worker = scene.worker()
    worker.die_long_ago(100)
    continuity = Continuity(5.0)
    continuity._event = "the server was started"

    WorkerRows(scene.wire, scene.sql, DutySettings(worker_row_age=50.0), continuity).run_turn()

    assert scene.ask("select token from fencepost.worker") == [(worker.token,)]


@pytest.mark.spec("C7")
def test_a_miscounted_key_limit_is_recounted_and_an_idle_one_forgotten(scene: Scene) -> None:
    scene.enqueue(2, concurrency_key="k")
    worker = scene.worker()
    worker.claim()
    scene.ask("update fencepost.gate set used = 5")
    scene.ask("insert into fencepost.gate (ckey) values ('idle')")

    GateKeeper(scene.wire, scene.sql, QUICK).run_turn()

    assert scene.ask("select ckey, used from fencepost.gate") == [("k", 1)]
    assert scene.ask("select * from fencepost.fsck") == []


def ended(scene: Scene, number: int, act: str, *, prefix: str, age_days: float = 0.0, **options: Any) -> None:
    """Jobs that ended so long ago."""
    scene.enqueue(number, prefix=prefix, **options)
    worker = scene.worker()
    while len(worker.held) < number and worker.claim(number):
        pass
    code = "BROKEN" if act == "fail" else None
    items = [(fence, Settlement(act=act, code=code)) for fence in worker.fences]
    scene.wire.run(jobs.settle(scene.sql, items))
    ids = [fence.id for fence in worker.fences]
    scene.ask(
        "update fencepost.outcome set finished_at = finished_at - %s * interval '1 day', "
        "purge_at = purge_at - %s * interval '1 day' where id = any(%s)",
        age_days, age_days, ids,
    )  # fmt: skip


@pytest.mark.spec("L4")
def test_retention_goes_in_batches_and_leaves_daily_counts(scene: Scene) -> None:
    ended(scene, 25, "succeed", prefix="old", age_days=15)
    ended(scene, 3, "succeed", prefix="young", age_days=13)
    ended(scene, 4, "fail", prefix="broken", age_days=91)
    ended(scene, 2, "fail", prefix="kept", age_days=89)

    turn = Pruner(scene.wire, scene.sql, DutySettings(batch=10)).run_turn()

    assert turn.done == 29
    assert not turn.more
    assert sorted({job_id.partition(":")[0] for job_id in scene.states()}) == ["kept", "young"]
    counts = scene.ask("select state, code, sum(n)::int from fencepost.daily group by 1, 2 order by 1, 2")
    assert counts == [("failed", "BROKEN", 4), ("succeeded", "", 25)]
    assert scene.ask("select * from fencepost.fsck") == []


@pytest.mark.spec("L4", "L7")
def test_retention_never_touches_doubt(scene: Scene) -> None:
    ended(scene, 2, "doubt", prefix="doubt")
    scene.ask("update fencepost.outcome set finished_at = finished_at - interval '10 years'")

    Pruner(scene.wire, scene.sql, DutySettings()).run_turn()

    assert set(scene.states().values()) == {"in_doubt"}


@pytest.mark.spec("L4", "Q3")
def test_retention_never_ends_a_dedup_window(scene: Scene) -> None:
    ended(scene, 1, "succeed", prefix="window", age_days=15, dedup_s=30 * 86_400.0)

    Pruner(scene.wire, scene.sql, DutySettings()).run_turn()

    assert scene.states() == {"window:0": "succeeded"}


@pytest.mark.spec("L4")
def test_a_turn_of_retention_is_bounded_and_says_that_there_is_more(scene: Scene) -> None:
    ended(scene, 45, "succeed", prefix="old", age_days=15)

    first = Pruner(scene.wire, scene.sql, DutySettings(batch=2)).run_turn()

    assert first.done == 40
    assert first.more


@pytest.mark.spec("L4", "A4")
def test_retention_passes_by_what_another_has_locked(scene: Scene) -> None:
    ended(scene, 3, "succeed", prefix="old", age_days=15)
    with psycopg.connect(scene.dsn) as other:
        other.execute("select from fencepost.outcome order by id limit 1 for update")

        turn = Pruner(scene.wire, scene.sql, DutySettings()).run_turn()

    assert turn.done == 2


def test_a_table_full_of_dead_rows_is_vacuumed_by_its_owner(scene: Scene) -> None:
    scene.enqueue(400)
    scene.ask("delete from fencepost.ready")
    duty = Vacuumer(scene.wire, scene.sql, DutySettings(vacuum_after=100))

    def vacuumed() -> bool:
        duty.run_turn()
        return bool(scene.ask("select 1 from pg_stat_user_tables where relname = 'ready' and last_vacuum is not null"))

    eventually(vacuumed, within=10, every=0.1)


def test_who_may_not_vacuum_hears_the_price_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Review B12: before 17 only the owner may."""
    scene.enqueue(400)
    scene.ask("delete from fencepost.ready")
    stranger = f"stranger_{scene.one('select oid from pg_database where datname = current_database()')}"
    scene.ask(f"create role {stranger} login")
    scene.ask(f"grant usage on schema fencepost to {stranger}")
    wire = Wire(psycopg.conninfo.make_conninfo(scene.dsn, user=stranger), deadline=10, name="stranger")
    duty = Vacuumer(wire, scene.sql, DutySettings(vacuum_after=100))
    try:

        def said() -> bool:
            duty.run_turn()
            return "may not VACUUM" in caplog.text

        eventually(said, within=10, every=0.1)
        duty.run_turn()
        duty.run_turn()

        assert caplog.text.count("may not VACUUM") == 1
        assert [record.levelno for record in caplog.records if "VACUUM" in record.getMessage()] == [logging.WARNING]
    finally:
        wire.close()
        scene.ask(f"drop owned by {stranger}")
        scene.ask(f"drop role {stranger}")


def test_the_leader_does_all_of_it_by_itself(scene: Scene) -> None:
    """Due jobs become ready, late ones expire, old ones go."""
    ended(scene, 5, "succeed", prefix="old", age_days=15)
    scene.enqueue(3, prefix="soon", delay_s=0.5)
    now = scene.one("select clock_timestamp()")
    scene.enqueue(2, prefix="late", delay_s=60, start_by=now)

    with leading(scene):
        eventually(lambda: scene.one("select count(*) from fencepost.ready") == 3, within=10)
        eventually(lambda: list(scene.states().values()).count("skipped") == 2, within=10)
        eventually(lambda: not any(job_id.startswith("old") for job_id in scene.states()), within=10)


def test_a_long_vacuum_or_purge_delays_no_rescue(scene: Scene) -> None:
    """They have a connection and a thread of their own."""
    old = scene.one("select pg_get_functiondef('fencepost.purge_v1'::regproc)")
    scene.ask(
        "create or replace function fencepost.purge_v1(p_limit int) returns int language plpgsql as "
        "'begin perform pg_sleep(3); return 0; end'"
    )
    try:
        with leading(scene) as leader:
            eventually(lambda: leader.leading)
            eventually(
                lambda: scene.ask(
                    "select 1 from pg_stat_activity where query like %s and wait_event = 'PgSleep'", "%purge%"
                )
            )
            scene.enqueue(1)
            scene.worker().claim(ttl_s=0.2)
            begun = time.monotonic()

            eventually(lambda: scene.left_running() == 0, within=5)

            assert time.monotonic() - begun < 1.5
    finally:
        scene.ask(old)


def test_turns_do_not_overlap_between_threads(scene: Scene) -> None:
    """Two reapers beside each other take each lease back once."""
    scene.enqueue(200)
    worker = scene.worker()
    worker.claim(200)
    worker.die_long_ago()
    other = Scene(scene.dsn, scene.sql)
    done: list[int] = []

    def turn(one: Scene) -> None:
        done.append(reaper(one, batch=20).run_turn().done)

    threads = [threading.Thread(target=turn, args=(one,)) for one in (scene, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.append(reaper(scene).run_turn().done)
    other.close()

    assert sum(done) == 200
    assert scene.one("select max(run_count) from fencepost.jobs") == 1
