"""The rules of the storage, on every server version, with the guard of L2 on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from servers import Database
from sql import rules as r
from sql.hands import Conn, Store, perform

Check = Callable[[Store, Conn], Awaitable[None]]

RULES = [
    pytest.param(r.beat_keeps_a_lease_that_is_old_by_its_claim, marks=pytest.mark.spec("C3")),
    pytest.param(r.order_is_priority_then_run_at_then_id, marks=pytest.mark.spec("C2")),
    pytest.param(r.a_manual_retry_respects_a_held_key, marks=pytest.mark.spec("R5", "Q4")),
    pytest.param(r.a_started_body_that_must_not_run_twice_is_not_handed_back, marks=pytest.mark.spec("W3", "W12")),
    pytest.param(r.deadlines_are_applied_where_a_job_is_met, marks=pytest.mark.spec("Q6", "L6")),
    pytest.param(r.a_resubmission_keeps_the_run_count, marks=pytest.mark.spec("Q3", "E2")),
    pytest.param(r.a_pause_and_quotas_hold_in_the_claim, marks=pytest.mark.spec("C2", "C9")),
    pytest.param(r.a_job_comes_back_into_the_queue_as_the_queue_is_by_then, marks=pytest.mark.spec("C9")),
    pytest.param(r.the_labels_come_in_the_promised_precedence, marks=pytest.mark.spec("L1")),
    pytest.param(r.a_lost_lease_is_recorded_and_the_job_runs_again, marks=pytest.mark.spec("C6", "L3", "L5")),
    pytest.param(r.a_lost_lease_without_attempts_left_fails, marks=pytest.mark.spec("C6")),
    pytest.param(r.the_ttl_lies_with_the_lease, marks=pytest.mark.spec("C4", "C10", "C11")),
    pytest.param(r.a_dead_process_has_four_classes_of_jobs, marks=pytest.mark.spec("W11", "R6")),
    pytest.param(
        r.a_body_that_must_not_run_twice_ends_in_doubt_however_its_process_died, marks=pytest.mark.spec("W12", "L7")
    ),
    pytest.param(r.one_attempt_is_one_start, marks=pytest.mark.spec("W3", "C6")),
    pytest.param(r.an_at_most_once_body_ends_by_its_own_word, marks=pytest.mark.spec("W12")),
    pytest.param(r.unpaid_pauses_are_bounded, marks=pytest.mark.spec("R3", "R6")),
    pytest.param(r.exhausted_attempts_fail_with_the_handlers_code, marks=pytest.mark.spec("R4")),
    pytest.param(r.a_deadline_ends_every_road_back, marks=pytest.mark.spec("Q6")),
    pytest.param(r.the_same_job_id_with_other_arguments_says_so, marks=pytest.mark.spec("Q11")),
    pytest.param(r.a_resubmission_takes_the_new_arguments_and_drops_the_checkpoint, marks=pytest.mark.spec("Q3")),
    pytest.param(r.an_operators_retry_keeps_arguments_and_checkpoint, marks=pytest.mark.spec("R5", "A3")),
    pytest.param(r.a_doubt_waits_for_a_verdict, marks=pytest.mark.spec("L7")),
    pytest.param(r.a_cancel_finds_the_job_wherever_it_is, marks=pytest.mark.spec("W8", "A3")),
    pytest.param(r.a_beat_speaks_for_several_processes, marks=pytest.mark.spec("C3", "C5")),
    pytest.param(r.an_unstorable_progress_costs_no_lease, marks=pytest.mark.spec("W9", "R8")),
    pytest.param(r.a_claim_hands_out_all_that_a_run_needs, marks=pytest.mark.spec("Q6", "Q7")),
    pytest.param(r.a_key_limit_is_exact_and_lets_in_what_fits, marks=pytest.mark.spec("C7")),
    pytest.param(r.a_rescue_gives_back_slots_at_the_next_promotion, marks=pytest.mark.spec("C6", "C7")),
    pytest.param(r.new_retention_reaches_what_has_ended, marks=pytest.mark.spec("L4")),
    pytest.param(r.what_cannot_be_purged_stops_no_other, marks=pytest.mark.spec("C12", "L4")),
    pytest.param(r.durations_at_the_edges_stop_no_other, marks=pytest.mark.spec("C10", "C12")),
    pytest.param(r.a_beat_of_the_future_keeps_nothing, marks=pytest.mark.spec("C10", "C12")),
    pytest.param(r.a_beat_goes_on_beside_a_lease_of_no_time, marks=pytest.mark.spec("C5", "C12")),
    pytest.param(r.a_run_that_cannot_be_counted_ends, marks=pytest.mark.spec("C12")),
    pytest.param(r.the_pause_after_a_crash_has_a_bound, marks=pytest.mark.spec("C12", "R6")),
    pytest.param(r.a_lease_that_fits_nowhere_ends_where_it_is_seen, marks=pytest.mark.spec("C12")),
    pytest.param(r.texts_too_long_for_the_daily_counts_stop_no_purge, marks=pytest.mark.spec("C12", "L4")),
    pytest.param(r.a_gate_at_the_edge_of_its_type_lets_in, marks=pytest.mark.spec("C7", "C12")),
    pytest.param(r.an_ended_job_can_be_discarded, marks=pytest.mark.spec("A3")),
    pytest.param(r.workers_publish_what_changed, marks=pytest.mark.spec("Q10")),
    pytest.param(r.a_pause_is_audited_once, marks=pytest.mark.spec("A3")),
    pytest.param(r.a_wrong_call_of_the_public_function_is_a_sentence, marks=pytest.mark.spec("Q10")),
    pytest.param(r.a_batch_answers_as_its_rows_would_one_by_one, marks=pytest.mark.spec("Q5", "Q9")),
    pytest.param(r.a_late_write_of_an_earlier_run_changes_nothing, marks=pytest.mark.spec("C3", "L3")),
    pytest.param(r.a_key_limit_holds_without_its_gate_row, marks=pytest.mark.spec("C7")),
    pytest.param(r.an_answer_of_enqueue_locks_nothing, marks=pytest.mark.spec("Q11")),
    pytest.param(r.a_batch_is_taken_in_id_order_whatever_its_acts, marks=pytest.mark.spec("Q11")),
    pytest.param(r.no_write_of_another_run_or_process_changes_anything, marks=pytest.mark.spec("C3", "W9")),
    pytest.param(r.a_job_keeps_its_key_until_it_ends, marks=pytest.mark.spec("Q4")),
    pytest.param(r.a_slot_comes_back_once_and_by_who_had_it, marks=pytest.mark.spec("C7", "C3")),
    pytest.param(r.a_gate_that_says_something_is_not_swept, marks=pytest.mark.spec("C7")),
]


@pytest.mark.parametrize("check", RULES)
def test_the_storage_keeps_a_rule(guarded: Database, check: Check) -> None:
    perform(guarded.dsn, check)
