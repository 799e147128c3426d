"""Plans in trouble: hostile settings, statistics of empty tables, a million rows (SPEC C2; catalogue PLN)."""

from __future__ import annotations

import pytest

from servers import Database
from sql.plans import FILL, growth, measured, stock

LIFECYCLE = ("jobs", "duties", "control")
"""Rooms of statements that no setting may mislead; those for people's lists are not pinned against a hostile session."""

HOSTILE = """
set enable_indexscan = off; set enable_nestloop = off; set enable_hashagg = off; set enable_sort = off;
set enable_material = off; set random_page_cost = 1000; set seq_page_cost = 0.001; set cpu_index_tuple_cost = 1000;
set work_mem = '64kB'; set effective_cache_size = '8kB'; set jit = on; set jit_above_cost = 0;
set join_collapse_limit = 1; set from_collapse_limit = 1; set geqo_threshold = 2; set plan_cache_mode = force_custom_plan;
set max_parallel_workers_per_gather = 8; set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0;
set constraint_exclusion = on; set cursor_tuple_fraction = 1;
"""
"""What a DBA or a session might have set, at its worst. The statements for people's lists are not pinned against it."""


@pytest.mark.slow
@pytest.mark.spec("C2")
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.nightly)], ids=["100k", "1M"])
@pytest.mark.timeout(900)
def test_no_setting_of_a_session_makes_the_lifecycle_read_more(database: Database, times: int) -> None:
    """PLN-1, at a hundred thousand or a million rows in each place, with the statistics of nearly empty tables."""
    with database.connect() as conn:
        stock(conn)
        before = measured(conn, LIFECYCLE)
        conn.execute(FILL.replace("00000", "00000" + "0" * (times // 10)).encode())
        conn.execute(HOSTILE.encode())

        stale = measured(conn, LIFECYCLE)
        conn.execute("analyze")
        fresh = measured(conn, LIFECYCLE)

    assert growth(before, stale) == {}
    assert growth(before, fresh) == {}
