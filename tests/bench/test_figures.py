"""Readings as figures: medians, ratios within a round, percentiles."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.bench.figures import Spread, percentile, ratios
from fencepost.bench.paper import show
from fencepost.bench.sides import Reading, Side, measure

readings = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=50)


@given(readings)
def test_a_spread_holds_every_reading_and_its_median(values: list[float]) -> None:
    spread = Spread.of(values)

    assert spread.median == statistics.median(values)
    assert all(spread.least <= value <= spread.most for value in values)
    assert {spread.least, spread.most} <= set(values)


@given(readings, st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_ratio_is_taken_within_each_round(mine: list[float], speed: float, weather: float) -> None:
    """Whatever the machine does from round to round, it does to both."""
    slow = [value * (weather if number % 2 else 1) for number, value in enumerate(mine)]

    spread = ratios([value * speed for value in slow], slow)

    assert spread.least == pytest.approx(speed)
    assert spread.most == pytest.approx(speed)


def test_the_ratio_of_the_medians_is_not_the_median_of_the_ratios() -> None:
    assert ratios([10, 20, 90], [10, 10, 30]).median == 2
    assert statistics.median([10, 20, 90]) / statistics.median([10, 10, 30]) == 2
    assert ratios([10, 20, 90], [30, 10, 10]).median == 2
    assert ratios([10, 20, 30], [30, 10, 20]).median == 1.5


def test_rounds_that_are_not_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


@given(readings, st.floats(0, 1))
def test_a_percentile_is_the_least_reading_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)

    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    assert sum(value < found for value in values) < max(share * len(values), 1e-6) + 1e-6


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.0, 1), (1, 1.0, 1), (2, 0.5, 1), (3, 0.5, 2), (100, 0.99, 99), (100, 0.07, 7), (100, 1.0, 100), (200, 0.5, 100)],
)  # fmt: skip
def test_the_edges_of_percentiles(count: int, share: float, expected: float) -> None:
    assert percentile(range(count, 0, -1), share) == expected


def test_figures_are_rounded_for_people() -> None:
    spread = Spread(1.25, 0.123456, 9.0)

    assert spread.rounded() == {"median": 1.0, "least": 0.0, "most": 9.0}
    assert spread.rounded(3) == {"median": 1.25, "least": 0.123, "most": 9.0}
    assert spread.edges(2) == [0.12, 9.0]


def reading_from(*rates: float, cpu_s: float | None = None) -> Side:
    source: Iterator[float] = iter(rates)
    return Side("it", lambda: Reading(100, 100 / next(source), cpu_s))


def test_sides_are_read_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    turns: list[str] = []

    def side(name: str) -> Side:
        def read() -> Reading:
            turns.append(name)
            return Reading(1, 1.0)

        return Side(name, read)

    measure([side("a"), side("b")], 3)

    assert turns == ["a", "b"] * 3
    assert capsys.readouterr().err.count("round ") == 3


def test_a_side_tells_its_rate_its_cost_and_its_ratio() -> None:
    mine, other = reading_from(50, 10, 30, cpu_s=0.5), reading_from(100, 40, 30)
    other.name = "other"

    measure([mine, other], 3)

    assert mine.as_json(other) == {
        "jobs_per_s": {"median": 30.0, "least": 10.0, "most": 50.0},
        "cpu_s_per_10k": {"median": 50.0, "least": 50.0, "most": 50.0},
        "ratio_to_other": {"median": 0.5, "least": 0.25, "most": 1.0},
    }
    assert set(other.as_json(other)) == {"jobs_per_s"}  # no cost is known, and nobody is compared with himself


FIGURES = {
    "bench": "drain",
    "jobs_per_s": 12345.0,
    "cpu_s_per_10k": None,
    "spread": {"jobs_per_s": [12000.0, 13000.0]},
    "sides": {"bare": {"jobs_per_s": {"median": 20000.0, "least": 19000.0, "most": 21000.0}}},
    "settings": {"fsync": "on"},
}


def test_json_is_one_line_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    show(FIGURES, as_json=True)

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == FIGURES


def test_paper_has_the_figures_the_sides_and_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    show(FIGURES, as_json=False)

    out = capsys.readouterr().out
    assert "jobs_per_s     12,345" in out
    assert "20,000 (19,000 to 21,000)" in out
    assert "12,000 to 13,000" in out
    assert "fsync  on" in out
    assert "None" not in out
    assert "[" not in out
