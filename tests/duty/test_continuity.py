"""The evidence that the database was in steady service (SPEC C11), judged without a database: looks in, grace out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fencepost.duty.continuity import Continuity, Look
from fencepost.store.views import ServiceRecord

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
BOOT = NOON - timedelta(hours=5)
INTERVAL = 5.0


class World:
    """A database's clock, our own clock and the workers' beats, moved by hand."""

    def __init__(self) -> None:
        self.own = 1000.0
        self.now = NOON
        self.started_at = BOOT
        self.timeline: int | None = 1
        self.beats: list[datetime] = []
        self.judge = Continuity(INTERVAL, own=lambda: self.own)

    def pass_by(self, seconds: float) -> None:
        self.own += seconds
        self.now += timedelta(seconds=seconds)

    def look(self) -> float:
        return self.judge.judge(
            Look(
                started_at=self.started_at,
                timeline=self.timeline,
                now=self.now,
                sent=self.own - 0.01,
                received=self.own,
                beats=tuple(self.beats),
            )
        )

    def beat(self) -> None:
        self.beats = [self.now]


@pytest.fixture
def world() -> World:
    steady = World()
    steady.beat()
    assert steady.look() == 0.0
    return steady


@pytest.mark.spec("C11")
def test_steady_service_needs_no_grace(world: World) -> None:
    for _ in range(20):
        world.pass_by(1)

        assert world.look() == 0.0


@pytest.mark.spec("C11")
def test_after_a_server_start_live_workers_get_two_beat_intervals(world: World) -> None:
    world.pass_by(60)
    world.started_at = world.now - timedelta(seconds=1)

    at_once = world.look()
    world.pass_by(9.9)
    just_before = world.look()
    world.pass_by(0.2)
    after = world.look()

    assert at_once == pytest.approx(60)
    assert just_before == pytest.approx(69.9), "grace protects what was fresh before the outage, and no more"
    assert after == 0.0


@pytest.mark.spec("C11")
def test_the_wait_ends_when_every_live_worker_has_beaten_again(world: World) -> None:
    world.pass_by(60)
    world.started_at = world.now - timedelta(seconds=1)
    assert world.look() > 0

    world.pass_by(1)
    world.beat()

    assert world.look() == 0.0


@pytest.mark.spec("C11")
def test_one_worker_back_is_not_all_of_them(world: World) -> None:
    world.beats = [world.now, world.now - timedelta(seconds=2)]
    world.look()
    world.pass_by(60)
    world.started_at = world.now - timedelta(seconds=1)
    world.look()

    world.pass_by(1)
    world.beats[0] = world.now

    assert world.look() > 0


@pytest.mark.spec("C11")
def test_without_live_workers_nothing_is_waited_for(world: World) -> None:
    """They were all dead long before the server was started."""
    world.pass_by(3600)
    assert world.look() == 0.0
    world.pass_by(60)
    world.started_at = world.now - timedelta(seconds=1)

    assert world.look() == 0.0


@pytest.mark.spec("C11")
def test_a_new_timeline_counts_as_an_event(world: World) -> None:
    world.pass_by(1)
    world.timeline = 2

    assert world.look() == pytest.approx(1)
    assert world.judge.waiting_because == "the timeline changed"


def test_a_timeline_that_this_role_may_not_see_is_no_event(world: World) -> None:
    world.pass_by(1)
    world.timeline = None

    assert world.look() == 0.0


@pytest.mark.spec("C11")
def test_a_jump_of_the_database_clock_is_measured_against_our_own(world: World) -> None:
    world.pass_by(1)
    world.now += timedelta(hours=1)

    assert world.look() == pytest.approx(3601), "every lease looks an hour old; none is judged by that hour"
    assert world.judge.waiting_because == "the database's clock jumped"


@pytest.mark.spec("C11")
def test_a_clock_that_is_set_back_never_makes_a_lease_older(world: World) -> None:
    world.pass_by(1)
    world.now -= timedelta(hours=1)

    assert world.look() == 0.0


def test_slow_drift_and_slow_answers_are_no_jump(world: World) -> None:
    for _ in range(600):
        world.pass_by(1)
        world.own += 0.001
        world.beat()
        assert world.look() == 0.0


@pytest.mark.spec("C11")
def test_our_own_lost_connection_may_be_everybodys(world: World) -> None:
    """A crash restart keeps the postmaster's start time."""
    world.judge.connection_broke()
    world.pass_by(40)

    assert world.look() == pytest.approx(40)
    assert world.judge.waiting_because == "the connection was lost"


@pytest.mark.spec("C11")
def test_a_lost_connection_of_ours_alone_costs_nothing(world: World) -> None:
    world.judge.connection_broke()
    world.pass_by(2)
    world.beat()
    world.look()
    world.pass_by(0.5)
    world.beat()

    assert world.look() == 0.0


@pytest.mark.spec("C11", "S3")
def test_a_newcomer_without_an_event_clears_at_once() -> None:
    newcomer = World()
    newcomer.beats = [NOON - timedelta(seconds=3)]

    newcomer.judge.inherit(ServiceRecord(started_at=BOOT, timeline=1, at=NOON - timedelta(seconds=15)))

    assert newcomer.look() == 0.0


@pytest.mark.spec("C11", "S3")
def test_a_newcomer_after_a_server_start_knows_it_from_its_predecessors_record() -> None:
    newcomer = World()
    newcomer.started_at = NOON - timedelta(seconds=1)
    newcomer.beats = [NOON - timedelta(seconds=61)]

    newcomer.judge.inherit(ServiceRecord(started_at=BOOT, timeline=1, at=NOON - timedelta(seconds=60)))

    assert newcomer.look() == pytest.approx(60)


def test_the_first_leader_ever_waits_for_nothing() -> None:
    first = World()
    first.beats = [NOON - timedelta(seconds=3)]
    first.judge.connection_broke()

    assert first.look() == 0.0


@pytest.mark.spec("C11")
def test_the_record_stays_at_the_last_good_moment_while_waiting(world: World) -> None:
    """So that a successor in the middle of the wait begins its own, from the same moment."""
    good = world.judge.record
    world.pass_by(60)
    world.started_at = world.now
    world.look()

    assert world.judge.record == good


@pytest.mark.spec("C11")
def test_a_database_that_restarts_for_ever_does_not_keep_lost_jobs_for_ever(world: World) -> None:
    """Review B8: faults each second must not mean permanent grace."""
    waited = 0.0
    while waited < 120:
        world.pass_by(2)
        waited += 2
        world.started_at = world.now
        if world.look() == 0.0:
            break

    assert 25 < waited < 40
