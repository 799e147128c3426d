"""Mutants of the functions in SQL: the fence, the lease, the moves."""

from __future__ import annotations

from mutants.mutant import Mutant

SQL = "sql/functions/{}.sql"
RULE = "tests/sql/test_rules.py::test_the_storage_keeps_a_rule[{{pg}}-{}]"
FINDING = "tests/sql/test_findings.py::test_a_finding_of_the_review_stays_mended[{{pg}}-{}]"
RACE = "tests/sql/test_races.py::{}"

_ENDS = (
    "WHERE u.act IN ('succeed', 'fail', 'skip', 'doubt', 'cancel') ORDER BY u.id\n"
    "    ), lease AS (\n"
    "      DELETE FROM {schema}.running r USING proposal p\n"
    "       WHERE r.id = p.id"
)
_BACK = _ENDS.replace("act IN", "act NOT IN")
_SWEEP = (
    "WHERE g.used = 0 AND g.lim = 1\n"
    "                    ORDER BY g.ckey LIMIT p_limit FOR UPDATE SKIP LOCKED);\n"
    "  DELETE FROM {schema}.gate g\n"
    "   WHERE g.ckey = ANY (v_ckeys) AND g.used = 0"
)
_RUN, _TOKEN = " AND r.run_count = p.rc", " AND r.token = p.token"


def _sql(name: str, function: str, right: str, wrong: str, killer: str, *, gate: bool = False, by: str = "") -> Mutant:
    return Mutant(name, SQL.format(function), right, wrong, killer, gate, by)


FENCES = [
    _sql("an end is fenced without run_count", "_settle", _ENDS + _RUN + _TOKEN, _ENDS + _TOKEN,
         RULE.format("a_late_write_of_an_earlier_run_changes_nothing"), gate=True),
    _sql("an end is fenced without token", "_settle", _ENDS + _RUN + _TOKEN, _ENDS + _RUN,
         FINDING.format("a05_the_token_fences_where_the_run_count_repeats")),
    _sql("a retry is fenced without run_count", "_settle", _BACK + _RUN + _TOKEN, _BACK + _TOKEN,
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a retry is fenced without token", "_settle", _BACK + _RUN + _TOKEN, _BACK + _RUN,
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a beat is fenced without run_count", "heartbeat_v1",
         "WHERE y.id = u.id AND y.run_count = u.rc AND y.token = u.token\n        LIMIT 1 FOR",
         "WHERE y.id = u.id AND y.token = u.token\n        LIMIT 1 FOR",
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a beat is fenced without token", "heartbeat_v1",
         "WHERE y.id = u.id AND y.run_count = u.rc AND y.token = u.token\n        LIMIT 1 FOR",
         "WHERE y.id = u.id AND y.run_count = u.rc\n        LIMIT 1 FOR",
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a late beat is told ok", "heartbeat_v1",
         "WHERE y.id = u.id AND y.run_count = u.rc AND y.token = u.token LIMIT 1) r", "WHERE y.id = u.id LIMIT 1) r",
         RULE.format("a_late_write_of_an_earlier_run_changes_nothing")),
    _sql("progress is fenced without run_count", "_note_progress", "AND r.run_count = v_x.rc AND r.token", "AND r.token",
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("progress is fenced without token", "_note_progress", "AND r.token = v_x.token AND", "AND",
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a checkpoint is fenced without run_count", "checkpoint_v1", "AND r.run_count = p_run_count AND", "AND",
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a checkpoint is fenced without token", "checkpoint_v1", "AND r.token = p_token FOR", "FOR",
         RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a start is fenced without run_count", "start_v1", "AND y.run_count = u.rc AND y.token = p_token AND",
         "AND y.token = p_token AND", RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a start is fenced without token", "start_v1", "AND y.run_count = u.rc AND y.token = p_token AND",
         "AND y.run_count = u.rc AND", RULE.format("no_write_of_another_run_or_process_changes_anything")),
    _sql("a late start is told ok", "start_v1", "AND y.run_count = u.rc AND y.token = p_token LIMIT 1) r", "LIMIT 1) r",
         RULE.format("a_late_write_of_an_earlier_run_changes_nothing")),
    _sql("a claim keeps the run_count", "claim_v1", "v_now, l.run_count + 1, l.bytes", "v_now, l.run_count, l.bytes",
         RULE.format("a_late_write_of_an_earlier_run_changes_nothing")),
]  # fmt: skip

LEASES = [
    _sql("a rescue does not look again whether the lease is stale", "rescue_v1", "FOR UPDATE SKIP LOCKED) s", ") s",
         RACE.format("test_a_beat_that_meets_its_own_rescue_is_not_told_ok"), gate=True),
    _sql("a rescue waits for a locked lease", "rescue_v1", "FOR UPDATE SKIP LOCKED) s", "FOR UPDATE) s",
         RACE.format("test_a_settle_that_is_being_written_is_not_rescued"), by="LockNotAvailable"),
    _sql("a rescue judges by a ttl of its own", "rescue_v1", "{schema}._seconds(r.ttl_s)", "interval '30 s'",
         RULE.format("the_ttl_lies_with_the_lease")),
    _sql("a rescue knows no grace", "rescue_v1", "+ p_grace_s * interval '1 s'", "",
         "tests/store/test_flows.py::test_rescue_goes_by_the_ttl_of_the_lease_and_adds_the_grace"),
    _sql("a beat waits for a lock", "heartbeat_v1", "FOR NO KEY UPDATE SKIP LOCKED) x)", "FOR NO KEY UPDATE) x)",
         FINDING.format("a01_an_open_transaction_of_a_caller_stops_neither_outcomes_nor_the_pulse")),
    _sql("a locked lease is told lost", "heartbeat_v1", "THEN 'busy'", "THEN 'lost'",
         RACE.format("test_a_settle_that_is_being_written_is_not_rescued")),
    _sql("already is told as lost", "_settle", "THEN 'already' ELSE 'lost' END", "THEN 'lost' ELSE 'lost' END",
         "tests/store/test_flows.py::test_an_outcome_sent_twice_is_already_there_and_a_foreign_one_is_lost"),
    _sql("lost is told as already", "_settle", "THEN 'already' ELSE 'lost' END", "THEN 'already' ELSE 'already' END",
         "tests/store/test_flows.py::test_an_outcome_sent_twice_is_already_there_and_a_foreign_one_is_lost"),
    _sql("a lost run costs no attempt", "_settle", "l.act NOT IN ('release', 'snooze', 'park') AS spent",
         "l.act NOT IN ('release', 'snooze', 'park', 'lost') AS spent",
         RULE.format("a_lost_lease_is_recorded_and_the_job_runs_again")),
    _sql("a crash is not counted", "_settle", "l.crashes + (l.act = 'lost')::int", "l.crashes",
         FINDING.format("a15_a_dead_process_condemns_only_what_it_had_started")),
    _sql("a hand-back spends an attempt", "_settle", "l.act NOT IN ('release', 'snooze', 'park') AS spent",
         "l.act NOT IN ('snooze', 'park') AS spent",
         "tests/worker/supervisor/test_deaths.py::test_started_jobs_count_a_crash_and_unstarted_ones_go_back_unspent"),
    _sql("a started body that must not run twice goes back", "_settle", "AND r.started_at IS NOT NULL AND (r.at_most_once",
         "AND false AND (r.at_most_once", RULE.format("a_started_body_that_must_not_run_twice_is_not_handed_back")),
    _sql("two take one row", "claim_v1", "r.run_at, r.id LIMIT w.quota FOR UPDATE SKIP LOCKED", "r.run_at, r.id LIMIT w.quota",
         RACE.format("test_two_claims_of_one_row_have_one_winner")),
]  # fmt: skip

MOVES = [
    _sql("a cancel request is dropped on the way back", "_settle", "WHEN a.cancel_at IS NOT NULL THEN 'cancelled'", "",
         FINDING.format("a10_a_cancel_request_survives_every_road_back"), gate=True),
    _sql("a cancelled body starts", "start_v1", "WHEN r.cancel_at IS NOT NULL THEN 'cancel' ELSE 'ok'", "ELSE 'ok'",
         RULE.format("a_cancel_finds_the_job_wherever_it_is")),
    _sql("a claim makes no gate", "_sift", "WHERE NOT EXISTS (SELECT FROM {schema}.gate g WHERE g.ckey = u.k)",
         "WHERE false",
         "tests/duty/test_duties.py::test_a_dead_job_does_not_count_against_the_limit_that_gates_its_rescue"),
    _sql("a gate that counts is swept", "gate_sweep_v1", _SWEEP, _SWEEP.replace("g.used = 0 AND ", "").replace(" AND g.used = 0", ""),
         RULE.format("a_gate_that_says_something_is_not_swept")),
    _sql("a raised limit is swept", "gate_sweep_v1", "g.used = 0 AND g.lim = 1", "g.used = 0",
         RULE.format("a_gate_that_says_something_is_not_swept")),
    _sql("a busy gate lets through", "_sift", "r.ckey = ANY (v_mine)\n                   AND coalesce(", "coalesce(",
         RULE.format("a_key_limit_holds_without_its_gate_row"), by="LockNotAvailable"),
    _sql("a slot comes back before the outcome is written", "_settle", "  -- 1. Ends: what the handler decided",
         "  PERFORM {schema}._give_slots(ARRAY(SELECT r.ckey FROM {schema}.running r WHERE r.id = ANY (p_id)));\n"
         "  -- 1. Ends: what the handler decided", RULE.format("a_slot_comes_back_once_and_by_who_had_it")),
    _sql("a retry lets its key go", "_settle", "array_agg(v.id) FILTER (WHERE v.keyed AND v.state <> 'in_doubt')",
         "array_agg(v.id) FILTER (WHERE v.keyed AND v.state IS DISTINCT FROM 'in_doubt')",
         RULE.format("a_job_keeps_its_key_until_it_ends")),
    _sql("an end keeps its key", "_settle", "DELETE FROM {schema}.held h WHERE h.id = ANY (v_keyed);", "NULL;",
         "tests/client/test_answers.py::test_a_held_key_skips_with_the_name_of_its_holder_and_makes_no_row"),
    _sql("a doubt lets its key go", "_settle", "array_agg(l.id) FILTER (WHERE l.keyed AND l.state <> 'in_doubt')",
         "array_agg(l.id) FILTER (WHERE l.keyed)", "tests/client/test_answers.py::test_a_doubtful_job_keeps_its_id_and_its_key"),
    _sql("a dedup window ends at once", "_enqueue_look", "ended.finished_at > v_now - ", "ended.finished_at > v_now + ",
         "tests/client/test_answers.py::test_after_success_the_id_is_deduplicated_for_the_window_and_then_submitted_anew"),
    _sql("a job's own dedup window is forgotten", "_enqueue_look", "known.dedup_s, (SELECT", "NULL, (SELECT",
         "tests/client/test_answers.py::test_after_success_the_id_is_deduplicated_for_the_window_and_then_submitted_anew"),
    _sql("retention ends a dedup window", "claim_v1",
         "greatest(coalesce(t.keep_ok_s, 14 * 86400), coalesce(j.dedup_s, t.dedup_s, 86400))",
         "coalesce(t.keep_ok_s, 14 * 86400)", FINDING.format("a18_retention_ends_no_window_and_no_doubt")),
    _sql("an enqueue notifies nobody", "enqueue_v1", "IF p_notify AND v_answer && ARRAY['created', 'resubmitted']", "IF false",
         "tests/worker/test_pickup.py::test_an_idle_worker_is_woken"),
    _sql("a hand-back notifies nobody", "_settle", "IF p_act && ARRAY['release', 'lost'] AND", "IF false AND",
         "tests/failures/test_wakeups.py::test_what_becomes_runnable_is_begun_without_a_poll[hand_back]"),
    _sql("a resubmission notifies nobody", "resubmit_v1", "    NOTIFY {schema};\n", "",
         "tests/failures/test_wakeups.py::test_what_becomes_runnable_is_begun_without_a_poll[resubmit]"),
    _sql("a promotion forgets jobs", "promote_v1", "FROM due d\n    ON CONFLICT", "FROM due d WHERE d.run_count = 0\n    ON CONFLICT",
         FINDING.format("a17_delays_count_from_now_inside_a_long_transaction")),
    _sql("a promotion forgets slots", "promote_v1", "PERFORM {schema}._give_slots(v_ckeys);", "NULL;",
         "tests/store/test_flows.py::test_slots_that_a_users_transaction_left_are_given_back_by_promote"),
    _sql("a key is looked for and not taken", "_enqueue_one", "CONTINUE WHEN NOT FOUND;", "",
         RACE.format("test_a_key_that_is_taken_between_look_and_act_skips")),
    _sql("an ended job is revived by two", "_revive", "WHERE x.id = p_id AND x.run_count = p_run_count RETURNING",
         "WHERE x.id = p_id RETURNING", RACE.format("test_a_job_that_was_run_again_meanwhile_is_not_revived_as_it_was")),
    _sql("a lease of leadership is nothing", "lead_v1", "AND v_row.expires_at > v_now THEN RETURN", "AND false THEN RETURN",
         "tests/store/test_flows.py::test_one_leads_the_other_learns_what_the_first_found_good"),
    _sql("a new leader has the old epoch", "lead_v1", "v_row.epoch + v_taken::int", "v_row.epoch",
         "tests/duty/test_leader.py::test_a_leader_that_stops_hands_over_at_once"),
    _sql("a leader that is gone resigns for another", "resign_v1", "AND l.token = p_token", "",
         "tests/store/test_flows.py::test_one_leads_the_other_learns_what_the_first_found_good"),
]  # fmt: skip

ALL = [*FENCES, *LEASES, *MOVES]
