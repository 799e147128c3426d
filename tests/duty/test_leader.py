"""The leader's election: one at a time, another within seconds, and nothing left behind (SPEC S3)."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from duty.scene import QUICK, Scene, leading
from fencepost.duty.leader import Leader
from fencepost.duty.settings import DutySettings
from fencepost.errors import SchemaError, UsageError
from servers import Server
from waiting import always, eventually


@contextmanager
def process(scene: Scene, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """`fencepost leader` as a process of its own, with a lease of 1.5 s."""
    command = [sys.executable, "-m", "fencepost", "leader", "--dsn", scene.dsn, "--lease", "1.5", *flags]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGCONT)
            child.kill()
        child.communicate()


def leads(scene: Scene) -> int | None:
    token, _, alive = scene.leader_row()
    return token if alive else None


def first_leader(scene: Scene, child: subprocess.Popen[str]) -> int:
    """The token of the process, once it leads."""

    def look() -> int | None:
        assert child.poll() is None, child.communicate()[1]
        return leads(scene)

    return eventually(look, within=30) or 0


@pytest.mark.spec("S3")
def test_after_a_kill_another_takes_over_within_the_lease_and_clears_what_went_stale(scene: Scene) -> None:
    """STK-4: the killed one was in the middle of its passes."""
    with process(scene) as child:
        first = first_leader(scene, child)
        with leading(scene) as follower:
            scene.enqueue(20)
            worker = scene.worker()
            worker.claim(ttl_s=0.3)

            child.kill()
            killed = time.monotonic()

            eventually(lambda: leads(scene) == follower.token, within=5)
            assert time.monotonic() - killed < QUICK.lease + 2
            eventually(lambda: scene.left_running() == 0, within=3)
            assert first != follower.token
            assert set(scene.states().values()) == {"queued"}


@pytest.mark.spec("S3")
def test_a_leader_that_stops_hands_over_at_once(scene: Scene) -> None:
    long = DutySettings(lease=30.0)
    with leading(scene, long) as first:
        eventually(lambda: first.leading)
        with leading(scene, long) as second:
            eventually(lambda: second._renew_at > 0)

            first.halt()
            first.join(10)

            eventually(lambda: second.leading, within=long.follow_period * 1.3 + 1)
            assert second.epoch == first.epoch + 1


@pytest.mark.spec("S3")
def test_a_second_signal_ends_a_leader_whose_database_answers_nothing(own_server: Server) -> None:
    """The first one would wait for the answer up to its bound."""
    scene = Scene(own_server.dsn)
    with closing(scene), process(scene) as child:
        first_leader(scene, child)
        own_server.freeze()
        try:
            child.send_signal(signal.SIGTERM)
            always(lambda: child.poll() is None, during=0.5)

            child.send_signal(signal.SIGINT)

            assert child.wait(3) == 1
        finally:
            own_server.thaw()


@pytest.mark.spec("S3")
def test_two_never_lead_at_once(scene: Scene) -> None:
    """They come and go; whoever believes in its lease is alone, and each change of hands has a new epoch."""
    short = DutySettings(lease=0.6, reaper_period=0.1, heartbeat_interval=0.5)
    seen: dict[int, int] = {}
    crowds = 0
    dice = random.Random(7)
    crew: list[Leader] = []
    ends = time.monotonic() + 4
    next_change = [0.0]

    def look() -> bool:
        nonlocal crowds
        if time.monotonic() >= next_change[0]:
            next_change[0] = time.monotonic() + 0.3
            if len(crew) >= 3:
                crew.pop(dice.randrange(3)).halt()
            fresh = Leader(scene.dsn, scene.sql, short)
            fresh.start()
            crew.append(fresh)
        now_leading = [leader for leader in crew if leader.leading]
        crowds += len(now_leading) > 1
        for leader in now_leading:
            assert seen.setdefault(leader.epoch, leader.token) == leader.token, "one epoch, one holder"
        return time.monotonic() >= ends

    eventually(look, within=8, every=0.002)
    for leader in crew:
        leader.halt()
    for leader in crew:
        leader.join(10)

    assert crowds == 0
    assert len(seen) >= 3


@pytest.mark.spec("S3")
def test_a_frozen_leader_loses_its_role_and_knows_it_when_it_thaws(scene: Scene) -> None:
    with process(scene) as child:
        frozen = first_leader(scene, child)
        with leading(scene) as follower:
            child.send_signal(signal.SIGSTOP)
            eventually(lambda: leads(scene) == follower.token, within=QUICK.lease + 3)

            child.send_signal(signal.SIGCONT)
            child.send_signal(signal.SIGTERM)
            _, err = child.communicate(timeout=10)

            assert child.returncode == 0
            assert leads(scene) == follower.token, "the thawed one gave up a role that it did not have"
            assert frozen != follower.token
            assert "Traceback" not in err


@pytest.mark.spec("S3")
def test_the_lease_is_counted_from_the_sending_of_the_renewal(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal whose answer comes late must not stretch the leader's own belief."""
    now = [100.0]
    leader = Leader(scene.dsn, scene.sql, DutySettings(lease=10.0), own=lambda: now[0])
    call = leader._wire.run

    def late(flow: Any) -> Any:
        answer = call(flow)
        now[0] += 2.0
        return answer

    monkeypatch.setattr(leader._wire, "run", late)
    leader._campaign()
    believes = [leader.leading]

    now[0] = 109.1
    believes.append(leader.leading)

    assert believes == [True, False]
    assert leads(scene) == leader.token, "it stops before the database lets another in"
    leader._wire.close()


@pytest.mark.spec("S3")
def test_an_outage_is_logged_once_and_waited_out(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Every connection is ended again and again for a while."""
    caplog.set_level(logging.INFO, "fencepost.leader")
    with leading(scene) as leader:
        eventually(lambda: leader.leading)
        ends = time.monotonic() + 1.5

        def cut() -> bool:
            scene.ask(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and application_name like %s",
                "fencepost leader%",
            )
            return time.monotonic() >= ends

        eventually(cut, every=0.01)
        scene.enqueue(1)
        scene.worker().claim(ttl_s=0.2)

        eventually(lambda: scene.left_running() == 0, within=8)

    begun = sum("cannot reach the database" in record.getMessage() for record in caplog.records)
    over = sum("reaches the database again" in record.getMessage() for record in caplog.records)
    assert begun == over >= 1


@pytest.mark.spec("W4")
def test_without_a_schema_the_leader_ends_with_one_line(
    empty_database: object, caplog: pytest.LogCaptureFixture
) -> None:
    bare = Scene(empty_database.dsn)  # type: ignore[attr-defined]
    leader = Leader(bare.dsn, bare.sql, QUICK)

    leader.start()
    leader.join(10)

    assert isinstance(leader.error, SchemaError)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(lines) == 1
    assert "fencepost migrate" in lines[0]


def test_one_duty_that_fails_stops_neither_the_others_nor_itself(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """SPEC C12: a duty meets a row that it cannot handle, for ever."""
    caplog.set_level(logging.INFO, "fencepost.leader")
    old = scene.one("select pg_get_functiondef('fencepost.expire_v1'::regproc)")
    scene.ask(
        "create or replace function fencepost.expire_v1(p_limit int) returns int language plpgsql as "
        "'begin return 1 / 0; end'"
    )
    with leading(scene) as leader:
        eventually(lambda: leader.leading)
        eventually(lambda: "the duty expirer failed" in caplog.text)
        scene.enqueue(3)
        scene.worker().claim(ttl_s=0.2)
        eventually(lambda: scene.left_running() == 0, within=5)

        scene.ask(old)
        eventually(lambda: "the duty expirer works again" in caplog.text, within=5)

    assert caplog.text.count("the duty expirer failed") == 1


def test_the_leader_holds_no_lock_and_no_transaction_between_its_turns(scene: Scene) -> None:
    """DBO-2, DBO-5: works behind a pooler in transaction mode."""
    with leading(scene) as leader:
        eventually(lambda: leader.leading)
        looks = 0

        def look() -> bool:
            nonlocal looks
            looks += 1
            rows = scene.ask(
                "select a.state, (select count(*) from pg_locks l where l.pid = a.pid and l.locktype = 'advisory') "
                "from pg_stat_activity a where a.application_name like %s",
                "fencepost leader%",
            )
            assert all(not state.startswith("idle in transaction") and locks == 0 for state, locks in rows)
            return looks >= 20

        eventually(look)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lease": 0.1}, "lease must be 0.5 seconds or more"),
        ({"reaper_period": 0}, "reaper_period must be more than 0 seconds"),
        ({"pruner_period": float("nan")}, "pruner_period must be more than 0 seconds"),
        ({"batch": 0}, "batch must be between 1 and 10000"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        DutySettings(**options)  # type: ignore[arg-type]


def test_a_stop_during_an_outage_does_not_hang() -> None:
    leader = Leader("host=/nonexistent dbname=x", Scene("host=/nonexistent").sql, QUICK, threading.Event())
    leader.start()
    eventually(lambda: leader._outage._lasts, within=10)

    leader.halt()
    leader.join(10)

    assert not leader.is_alive()
    assert leader.error is None
