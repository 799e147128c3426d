"""Whether the checks can fail: each mutant of a function must be killed by the check that is meant for it (SPEC D4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import psycopg
import pytest

from fencepost.sql.catalog import Catalog
from servers import Database
from sql import findings as f
from sql import guard
from sql import rules as r
from sql.hands import Conn, Store, perform, write_function


class Mutant(NamedTuple):
    name: str
    function: str
    right: str
    wrong: str
    killer: Callable[[Store, Conn], Awaitable[None]]


MUTANTS = [
    Mutant("a cancel request is dropped", "_settle", "WHEN a.cancel_at IS NOT NULL THEN 'cancelled'", "",
           f.a10_a_cancel_request_survives_every_road_back),
    Mutant("already is lost", "_settle", "THEN 'already' ELSE 'lost' END", "THEN 'lost' ELSE 'lost' END",
           f.a11_a_lost_answer_is_told_from_a_lost_lease),
    Mutant("a mixed batch is locked in two goes", "_settle", "LIMIT 1 FOR UPDATE) x;", "LIMIT 1) x;",
           r.a_batch_is_taken_in_id_order_whatever_its_acts),
    Mutant("one by one in any order", "settle_v1", "AS u(id, k) ORDER BY u.id LOOP", "AS u(id, k) ORDER BY u.k LOOP",
           r.a_batch_is_taken_in_id_order_whatever_its_acts),
    Mutant("a refused write is not counted", "_settle",
           "PERFORM fencepost._count_refused(p_id, p_run_count, p_token, v_done);", "",
           f.a11_a_lost_answer_is_told_from_a_lost_lease),
    Mutant("the beat waits", "heartbeat_v1", "LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED", "LIMIT 1 FOR NO KEY UPDATE",
           f.a01_an_open_transaction_of_a_caller_stops_neither_outcomes_nor_the_pulse),
    Mutant("busy is lost", "heartbeat_v1", "THEN 'busy'", "THEN 'lost'",
           f.a01_an_open_transaction_of_a_caller_stops_neither_outcomes_nor_the_pulse),
    Mutant("settle ignores the token", "_settle", "AND r.run_count = p.rc AND r.token = p.token",
           "AND r.run_count = p.rc", f.a05_the_token_fences_where_the_run_count_repeats),
    Mutant("settle ignores the run_count", "_settle", "AND r.run_count = p.rc AND r.token = p.token",
           "AND r.token = p.token", r.a_late_write_of_an_earlier_run_changes_nothing),
    Mutant("the beat ignores the token", "heartbeat_v1", "AND y.token = u.token", "",
           f.a05_the_token_fences_where_the_run_count_repeats),
    Mutant("the claim waits for gates", "_sift", "ORDER BY g.ckey\n                     FOR UPDATE SKIP LOCKED",
           "ORDER BY g.ckey FOR UPDATE", f.a12_a_completion_in_an_open_transaction_stops_no_claim),
    Mutant("a gate that somebody holds lets through", "_sift", "r.ckey = ANY (v_mine)\n                   AND coalesce(",
           "coalesce(", r.a_key_limit_holds_without_its_gate_row),
    Mutant("one wake-up for a key, not for each queue", "_parked_queues", "RETURN NEXT v_queue;",
           "RETURN NEXT v_queue; EXIT;", f.a13_a_key_shared_with_a_paused_queue_does_not_starve_the_other),
    Mutant("a started at-most-once body is queued again", "_settle",
           "WHEN a.at_most_once AND a.act IN ('lost', 'timeout') THEN 'in_doubt'", "",
           f.a15_a_dead_process_condemns_only_what_it_had_started),
    Mutant("a started body is handed back", "_settle",
           "r.started_at IS NOT NULL AND (r.at_most_once OR r.max_attempts = 1)", "false",
           r.a_started_body_that_must_not_run_twice_is_not_handed_back),
    Mutant("the reaper spends what never started", "rescue_v1", "THEN 'release' ELSE 'lost' END",
           "THEN 'lost' ELSE 'lost' END", r.one_attempt_is_one_start),
    Mutant("the crash blames the whole process", "rescue_process_v1", "ELSE 'release' END AS act",
           "ELSE 'lost' END AS act", r.a_dead_process_has_four_classes_of_jobs),
    Mutant("the key is not freed", "_settle", "DELETE FROM fencepost.held h WHERE h.id = ANY (v_keyed);", "NULL;",
           r.a_lost_lease_without_attempts_left_fails),
    Mutant("the key of a doubt is freed", "_settle", "FILTER (WHERE v.keyed AND v.state <> 'in_doubt')",
           "FILTER (WHERE v.keyed AND v.state IS NOT NULL)",
           r.a_body_that_must_not_run_twice_ends_in_doubt_however_its_process_died),
    Mutant("the slot is not given back", "_settle", "PERFORM fencepost._give_slots(v_ckeys);", "NULL;",
           f.a13_a_key_shared_with_a_paused_queue_does_not_starve_the_other),
    Mutant("the deferred slot is forgotten", "_settle",
           "INSERT INTO fencepost.slot_due (ckey) SELECT u.k FROM unnest(v_ckeys) AS u(k);", "NULL;",
           r.a_rescue_gives_back_slots_at_the_next_promotion),
    Mutant("the rescue ignores the beat", "rescue_v1", "coalesce(r.heartbeat_at, r.claimed_at)", "r.claimed_at",
           r.beat_keeps_a_lease_that_is_old_by_its_claim),
    Mutant("an observer applies its own ttl", "rescue_v1", "fencepost._seconds(r.ttl_s)", "interval '30 s'",
           r.the_ttl_lies_with_the_lease),
    Mutant("the purge forgets the window", "claim_v1",
           "greatest(coalesce(t.keep_ok_s, 14 * 86400), coalesce(j.dedup_s, t.dedup_s, 86400))",
           "coalesce(t.keep_ok_s, 14 * 86400)", f.a18_retention_ends_no_window_and_no_doubt),
    Mutant("the claim forgets the priority", "claim_v1", "ORDER BY l.priority DESC, l.run_at, l.id", "ORDER BY l.id",
           r.order_is_priority_then_run_at_then_id),
    Mutant("a delay counts from the transaction's start", "_settle", "v_now timestamptz := clock_timestamp()",
           "v_now timestamptz := now()", f.a17_delays_count_from_now_inside_a_long_transaction),
    Mutant("a bad result takes its batch along", "settle_v1", "EXCEPTION WHEN data_exception OR program_limit_exceeded OR",
           "EXCEPTION WHEN", f.a08_one_bad_row_stops_nothing_of_the_others),
    Mutant("a collision of ids is hidden", "_enqueue_new", "ON CONFLICT ON CONSTRAINT job_job_id_key DO NOTHING",
           "ON CONFLICT DO NOTHING", f.a04_a_collision_of_the_internal_id_is_loud),
    Mutant("pauses are free for ever", "_settle", "r.snoozes >= 100", "r.snoozes >= 100000", r.unpaid_pauses_are_bounded),
    Mutant("a deadline is forgotten on the way back", "_settle", "WHEN a.finish_by <= a.next_at THEN 'failed' END AS state",
           "END AS state", r.a_deadline_ends_every_road_back),
    Mutant("a resubmission keeps the checkpoint", "_enqueue_one", "DELETE FROM fencepost.carry c WHERE c.id = v_look.id;",
           "", r.a_resubmission_takes_the_new_arguments_and_drops_the_checkpoint),
    Mutant("an answer locks the job", "_enqueue_look", "WHERE j.job_id = input.job_id LIMIT 1",
           "WHERE j.job_id = input.job_id LIMIT 1 FOR UPDATE", r.an_answer_of_enqueue_locks_nothing),
    Mutant("two beats wait for each other", "heartbeat_v1", "LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED",
           "LIMIT 1 FOR NO KEY UPDATE", f.a02_no_pair_of_operations_deadlocks),
    Mutant("a beat waits for a caller", "heartbeat_v1", "LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED",
           "LIMIT 1 FOR NO KEY UPDATE", f.a01_an_open_transaction_of_a_caller_stops_neither_outcomes_nor_the_pulse),
    Mutant("a second look is never taken", "_enqueue_one", "THEN 5 ELSE 1 END", "THEN 1 ELSE 1 END",
           f.a03_enqueue_answers_every_input_in_order),
    Mutant("a move leaves some behind", "_sift", "FROM blocked b\n    ON CONFLICT ON CONSTRAINT parked_pkey",
           "FROM blocked b WHERE b.id % 7 <> 0\n    ON CONFLICT ON CONSTRAINT parked_pkey",
           f.a06_a_gate_row_that_vanishes_loses_no_job),
    Mutant("an unknown task spends an attempt", "_settle", "l.act NOT IN ('release', 'snooze', 'park') AS spent",
           "l.act NOT IN ('release', 'snooze') AS spent",
           f.a14_an_unknown_task_waits_visibly_for_a_worker_that_knows_it),
    Mutant("nobody is woken who knows the task", "wake_known_v1", ">= j.version ELSE false", "> j.version ELSE false",
           f.a14_an_unknown_task_waits_visibly_for_a_worker_that_knows_it),
    Mutant("everybody is notified", "enqueue_v1", "IF p_notify AND v_answer", "IF v_answer",
           f.a16_notify_is_optional_and_constant),
    Mutant("one unpurgeable row stops retention", "purge_v1", "EXCEPTION WHEN integrity_constraint_violation THEN\n    NULL;",
           "EXCEPTION WHEN integrity_constraint_violation THEN RAISE;", r.what_cannot_be_purged_stops_no_other),
    Mutant("a duration is taken as it is", "_seconds", "least(greatest(p_s, 0), 315360000)", "p_s",
           r.durations_at_the_edges_stop_no_other),
    Mutant("a beat of the future counts", "rescue_v1", "AND v_now + interval '10 years'", "AND 'infinity'",
           r.a_beat_of_the_future_keeps_nothing),
    Mutant("a worker of the future lives", "wake_known_v1", "AND clock_timestamp() + interval '60 s'", "AND 'infinity'",
           r.a_beat_of_the_future_keeps_nothing),
    Mutant("the last run is counted on", "claim_v1", "OR r.run_count = 2147483647", "", r.a_run_that_cannot_be_counted_ends),
    Mutant("crashes have no bound", "_settle", "2 ^ least(r.crashes, 9)", "2 ^ r.crashes",
           r.the_pause_after_a_crash_has_a_bound),
    Mutant("an unmovable lease stops its batch", "settle_v1", "EXCEPTION WHEN data_exception OR program_limit_exceeded OR "
           "integrity_constraint_violation THEN\n          --", "EXCEPTION WHEN unique_violation THEN\n          --",
           r.a_lease_that_fits_nowhere_ends_where_it_is_seen),
    Mutant("a rescue puts an unmovable lease out of sight", "_rescue", "WHEN unique_violation THEN",
           "WHEN integrity_constraint_violation THEN", r.a_lease_that_fits_nowhere_ends_where_it_is_seen),
    Mutant("a code of any length is counted", "_purge", "left(coalesce(e.error_code, ''), 64)", "coalesce(e.error_code, '')",
           r.texts_too_long_for_the_daily_counts_stop_no_purge),
    Mutant("the room of a gate is an int", "_sift", "g.lim::bigint", "g.lim", r.a_gate_at_the_edge_of_its_type_lets_in),
]  # fmt: skip


@pytest.fixture(scope="module")
def originals() -> dict[str, str]:
    return {file.name: file.text for file in Catalog().functions()}


@pytest.mark.spec("D4")
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_storage_is_noticed(mutable: Database, originals: dict[str, str], mutant: Mutant) -> None:
    right = originals[mutant.function]
    assert mutant.right in right, "the mutant no longer fits the function: write it anew"

    with mutable.connect() as conn:
        write_function(conn, right.replace(mutant.right, mutant.wrong), originals)
        try:
            assert is_noticed(mutable, mutant)
        finally:
            write_function(conn, right, originals)


def is_noticed(database: Database, mutant: Mutant) -> bool:
    """By one of five tries: some checks are races, and on a full machine nobody may have met anybody."""
    for _ in range(5):
        try:
            perform(database.dsn, mutant.killer)
        except (AssertionError, TimeoutError, psycopg.Error):
            return True
        with database.connect() as conn:
            guard.empty(conn)
    return False


@pytest.mark.parametrize("killer", {mutant.killer for mutant in MUTANTS}, ids=lambda killer: killer.__name__)
def test_the_same_checks_pass_on_the_storage_as_it_is(
    mutable: Database, killer: Callable[[Store, Conn], Awaitable[None]]
) -> None:
    perform(mutable.dsn, killer)


@pytest.mark.spec("D4")
def test_a_table_without_a_primary_key_is_noticed(database: Database) -> None:
    """A9: what a publication for all tables would stop."""
    with database.connect() as conn:
        conn.execute("alter table fencepost.running drop constraint running_pkey")

    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        perform(database.dsn, f.a09_it_works_under_a_publication_for_all_tables)


@pytest.mark.spec("D4")
def test_rows_that_are_named_by_their_places_are_noticed(database: Database, originals: dict[str, str]) -> None:
    """A7: the claim as the first draft had it."""
    right = "DELETE FROM fencepost.ready r WHERE r.id = ANY (v_chosen)"
    wrong = (
        "DELETE FROM fencepost.ready r WHERE r.ctid = ANY (ARRAY("
        "SELECT y.ctid FROM fencepost.ready y WHERE y.id = ANY (v_chosen)))"
    )
    assert right in originals["claim_v1"]
    with database.connect() as conn:
        write_function(conn, originals["claim_v1"].replace(right, wrong), originals)

    with pytest.raises(AssertionError):
        perform(database.dsn, f.a07_a_partitioned_ready_gives_only_what_was_chosen)


def test_every_finding_of_the_review_has_a_mutant() -> None:
    findings = {name for name in vars(f) if name.startswith("a") and name[1:3].isdigit()}
    assert len(findings) == 18
    assert findings - {mutant.killer.__name__ for mutant in MUTANTS} == {
        f.a07_a_partitioned_ready_gives_only_what_was_chosen.__name__,  # the two above
        f.a09_it_works_under_a_publication_for_all_tables.__name__,
    }
