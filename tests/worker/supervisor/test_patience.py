"""How signals and deaths are counted."""

from __future__ import annotations

import pytest

from fencepost.worker.supervisor.patience import Respawn, Stops


@pytest.mark.spec("W3")
def test_signals_within_200_ms_are_one() -> None:
    stops = Stops()

    heard = [stops.heard(now) for now in (10.0, 10.1, 10.19, 10.3, 10.4)]

    assert heard == [True, False, False, True, False]
    assert stops.calls == 2


def test_the_fifth_death_in_a_minute_without_a_running_body_is_the_end() -> None:
    respawn = Respawn()

    delays = [respawn.died(now, in_body=False) for now in (0, 10, 20, 30, 59)]

    assert delays == [0.0, 0.25, 0.5, 1.0, None]


def test_deaths_that_a_body_may_be_to_blame_for_only_slow_us_down() -> None:
    """The job's own count (max_crashes) stops it; two poisonous jobs must not end the service."""
    respawn = Respawn()

    delays = [respawn.died(float(now), in_body=True) for now in range(10)]

    assert delays == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]


def test_old_deaths_are_forgotten() -> None:
    respawn = Respawn()

    delays = [respawn.died(now, in_body=False) for now in (0, 61, 122, 183, 244, 305)]

    assert delays == [0.0] * 6
