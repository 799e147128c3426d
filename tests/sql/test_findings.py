"""Every finding of the design review (A1-A18) as a race or state test, on every server version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from servers import Database
from sql import findings as f
from sql.hands import Conn, Store, perform

Check = Callable[[Store, Conn], Awaitable[None]]

FINDINGS = [
    pytest.param(f.a01_an_open_transaction_of_a_caller_stops_neither_outcomes_nor_the_pulse, marks=pytest.mark.spec("C5", "Q11")),
    pytest.param(f.a02_no_pair_of_operations_deadlocks, marks=pytest.mark.spec("Q11")),
    pytest.param(f.a03_enqueue_answers_every_input_in_order, marks=pytest.mark.spec("Q5", "Q11")),
    pytest.param(f.a04_a_collision_of_the_internal_id_is_loud, marks=pytest.mark.spec("Q3")),
    pytest.param(f.a05_the_token_fences_where_the_run_count_repeats, marks=pytest.mark.spec("C3")),
    pytest.param(f.a06_a_gate_row_that_vanishes_loses_no_job, marks=pytest.mark.spec("C7", "C12")),
    pytest.param(f.a07_a_partitioned_ready_gives_only_what_was_chosen, marks=pytest.mark.spec("C1")),
    pytest.param(f.a08_one_bad_row_stops_nothing_of_the_others, marks=pytest.mark.spec("C12")),
    pytest.param(f.a09_it_works_under_a_publication_for_all_tables, marks=pytest.mark.spec("A4")),
    pytest.param(f.a10_a_cancel_request_survives_every_road_back, marks=pytest.mark.spec("W8")),
    pytest.param(f.a11_a_lost_answer_is_told_from_a_lost_lease, marks=pytest.mark.spec("L3", "W6")),
    pytest.param(f.a12_a_completion_in_an_open_transaction_stops_no_claim, marks=pytest.mark.spec("C7", "E1")),
    pytest.param(f.a13_a_key_shared_with_a_paused_queue_does_not_starve_the_other, marks=pytest.mark.spec("C7")),
    pytest.param(f.a14_an_unknown_task_waits_visibly_for_a_worker_that_knows_it, marks=pytest.mark.spec("Q8")),
    pytest.param(f.a15_a_dead_process_condemns_only_what_it_had_started, marks=pytest.mark.spec("R6", "W11", "W12")),
    pytest.param(f.a16_notify_is_optional_and_constant, marks=pytest.mark.spec("W2")),
    pytest.param(f.a17_delays_count_from_now_inside_a_long_transaction, marks=pytest.mark.spec("C10")),
    pytest.param(f.a18_retention_ends_no_window_and_no_doubt, marks=pytest.mark.spec("L4", "L7", "W9")),
]  # fmt: skip


@pytest.mark.parametrize("check", FINDINGS)
def test_a_finding_of_the_review_stays_mended(each_version: Database, check: Check) -> None:
    perform(each_version.dsn, check)
