"""Mutants of the programs: worker process, supervisor, leader, client, and what errors mean to them."""

from __future__ import annotations

from mutants.mutant import Mutant

BEATS = "tests/worker/supervisor/test_beats.py::{}"
DEATHS = "tests/worker/supervisor/test_deaths.py::{}"
CONTINUITY = "tests/duty/test_continuity.py::{}"

WORKER = [
    Mutant("jobs are claimed while the pulse fails", "worker/child/clerk.py",
           "if self.ending or not self.claiming or not self.pulse_good:", "if self.ending or not self.claiming:",
           "tests/failures/test_database_trouble.py::"
           "test_when_only_the_beats_fail_nothing_more_is_claimed_and_the_worker_gives_up_in_time"),
    Mutant("a stopped worker goes on claiming", "worker/child/clerk.py",
           "if self.ending or not self.claiming or not self.pulse_good:", "if self.ending or not self.pulse_good:",
           "tests/worker/test_semantics.py::test_a_worker_that_drains_takes_nothing_new", gate=True),
    Mutant("a local deadline is ignored", "worker/child/held.py",
           "return now_ns - self.beaten_ns > int(self.claimed.ttl_s * MARGIN * 1e9)", "return False",
           "tests/worker/test_scenarios_freezes.py::"
           "test_a_frozen_supervisor_makes_its_children_give_up_before_their_leases_end"),
    Mutant("a deadline runs from the answer, not from the question", "worker/pulse.py",
           "Answers(sent, ok=", "Answers(boot_ns(), ok=",
           "tests/worker/test_pulse.py::test_a_lease_counts_from_the_sending_of_the_beat"),
    Mutant("a body does not hear that its lease is lost", "worker/child/runtime.py",
           "for held in self.room.those(runs):\n            if held.tell(LOST):",
           "for held in ():\n            if held.tell(LOST):",
           "tests/worker/test_scenarios_leases.py::test_a_body_whose_lease_was_taken_away_hears_of_it_with_the_next_beat"),
    Mutant("a body does not hear of a cancel", "worker/child/runtime.py", "held.tell(CANCEL)", "held.tell",
           "tests/worker/test_cancels.py::test_a_running_body_hears_of_the_cancel_and_cleans_up"),
    Mutant("a repeated fence is given to a second body", "worker/child/clerk.py",
           " or (job.id, job.run_count) in self._dead:\n                self._note_repeated", ":\n                self._note_repeated",
           "tests/worker/test_scenarios_leases.py::test_a_fence_that_was_lost_is_given_to_no_second_body"),
    Mutant("a running body shares its fence with a second one", "worker/child/clerk.py",
           "if (job.id, job.run_count) in self.room.held or", "if",
           "tests/failures/test_failover.py::"
           "test_a_claim_that_a_failover_forgot_gives_no_second_body_the_same_fence[behind a pooler]"),
    Mutant("claims that nobody knows are kept after an outage", "worker/child/clerk.py",
           "        if unknown:\n            self._wire.run(", "        if False:\n            self._wire.run(",
           "tests/worker/test_scenarios_leases.py::test_a_claim_whose_answer_was_lost_goes_back_unspent"),
    Mutant("a lease is let go before its outcome is written", "worker/child/clerk.py",
           "        self._outbox.append(_Written(held, settlement))\n",
           "        self._outbox.append(_Written(held, settlement))\n        self._drop(held)\n",
           "tests/worker/test_scenarios_leases.py::test_a_lease_is_kept_until_the_outcome_is_written"),
    Mutant("an outcome that could not be written is forgotten", "worker/child/clerk.py",
           "                self._again = batch + self._again\n                raise", "                raise",
           "tests/failures/test_database_trouble.py::test_a_retry_is_written_when_the_trouble_is_over"),
    Mutant("a worker ends without settling", "worker/child/runtime.py",
           "if draining and not self.clerk.in_claim and self.room.is_empty:", "if draining and not self.clerk.in_claim:",
           "tests/worker/test_scenarios_stops.py::test_a_stop_lets_short_jobs_finish_and_hands_back_the_rest_unspent"),
    Mutant("a body that must not run twice starts unmarked", "worker/child/held.py",
           "return self.claimed.at_most_once or self.claimed.max_attempts == 1", "return False",
           "tests/worker/test_once.py::test_its_start_is_durable_before_it_begins"),
    Mutant("what was taken back begins all the same", "worker/child/room.py",
           "may_begin = not late and (self._board.start(held.at, self._hard_limit_ns(held)) or held.marked)",
           "may_begin = not late and (self._board.start(held.at, self._hard_limit_ns(held)) or True)",
           "tests/worker/test_room.py::test_what_the_supervisor_took_back_does_not_begin_and_what_came_later_does"),
]  # fmt: skip

SUPERVISOR = [
    Mutant("a rescue before the group is empty", "worker/supervisor/watch.py",
           "empty = child.is_group_empty() and not left", "empty = True",
           "tests/worker/supervisor/test_burials.py::test_nobody_is_rescued_before_the_group_is_empty", gate=True),
    Mutant("a stray of a dead child lives on", "worker/supervisor/watch.py",
           "left = strays.collect(ours, {child.mark for child in self._dying})", "left = strays.collect(ours)",
           DEATHS.format("test_bodies_and_strays_are_dead_before_their_jobs_run_again")),
    Mutant("a child without sign of life is beaten for", "worker/supervisor/clerk.py",
           " if boot_ns() - child.alive_at < patience}", "}",
           BEATS.format("test_a_frozen_child_loses_its_leases_and_its_neighbour_does_not")),
    Mutant("a lost lease is not passed on", "worker/supervisor/clerk.py", "        if said.lost:\n", "        if False:\n",
           BEATS.format("test_a_lost_lease_is_told")),
    Mutant("a beat renews what it did not reach", "worker/supervisor/clerk.py", "words.Beaten(said.sent_ns, said.renewed)",
           "words.Beaten(said.sent_ns, tuple(e.key for e in child.board.snapshot()))",
           BEATS.format("test_a_locked_job_is_neither_lost_nor_renewed_and_stops_no_other")),
    Mutant("all that a dead child had claimed is blamed", "worker/supervisor/watch.py",
           "        elif entry.state is EntryState.STARTED:", "        else:",
           DEATHS.format("test_started_jobs_count_a_crash_and_unstarted_ones_go_back_unspent")),
    Mutant("an outage loses a rescue", "worker/supervisor/clerk.py", "                self._open.appendleft(order)\n", "",
           DEATHS.format("test_an_outage_delays_a_rescue_and_does_not_lose_it")),
    Mutant("an outage is never told", "worker/supervisor/clerk.py", "if away > self._settings.heartbeat_ttl and", "if False and",
           BEATS.format("test_an_outage_longer_than_the_ttl_ends_the_worker_with_code_1")),
    Mutant("a recall is not fenced", "worker/supervisor/clerk.py", "recalled = child.board.recall()", "recalled = boot_ns()",
           BEATS.format("test_what_a_stalled_child_has_not_started_goes_back_and_never_starts_there")),
]  # fmt: skip

DUTIES = [
    Mutant("the evidence of continuity is ignored", "duty/continuity.py",
           "        if event is not None:\n            self._begin(event, look)", "",
           CONTINUITY.format("test_after_a_server_start_live_workers_get_two_beat_intervals"), gate=True),
    Mutant("a jump of the clock is no event", "duty/continuity.py",
           "return after[0] > before[1] + tolerance or after[1] < before[0] - tolerance", "return False",
           "tests/duty/test_duties.py::test_a_jump_of_the_databases_clock_costs_no_live_worker_its_lease"),
    Mutant("a newcomer knows nothing of its predecessor", "duty/leader.py", "self._continuity.inherit(answer.record)", "pass",
           "tests/duty/test_duties.py::test_a_newcomer_learns_of_the_restart_from_what_its_predecessor_left"),
    Mutant("a ttl is compared with the clock of the leader's machine", "duty/reaper.py", "grace_s=grace))",
           'grace_s=grace + self._look().now.timestamp() - __import__("time").time()))',
           "tests/duty/test_duties.py::test_the_clock_of_the_leaders_own_machine_means_nothing"),
    Mutant("the reaper gives no grace", "duty/reaper.py", "grace_s=grace))", "grace_s=0.0))",
           "tests/duty/test_duties.py::test_a_jump_of_the_databases_clock_costs_no_live_worker_its_lease"),
    Mutant("a leader trusts a lease that is over", "duty/leader.py", "_MARGIN = 0.9", "_MARGIN = 1.1",
           "tests/duty/test_leader.py::test_the_lease_is_counted_from_the_sending_of_the_renewal"),
    Mutant("a leader counts its lease from the answer", "duty/leader.py", "self._until = sent + self.settings.lease",
           "self._until = self._own() + self.settings.lease",
           "tests/duty/test_leader.py::test_the_lease_is_counted_from_the_sending_of_the_renewal"),
]  # fmt: skip

CLIENTS = [
    Mutant("an enqueue is repeated under a new job_id", "client/batch.py", "            yield self.jobs[start:]",
           "            yield [replace(j, job_id=new_job_id()) if j.job_id in self.ours else j for j in self.jobs[start:]]",
           "tests/client/test_own_commit.py::test_an_answer_lost_after_the_commit_makes_no_second_job[unnamed]"),
    Mutant("a repetition starts a failed job anew", "client/again.py", 'return "exists" if self.unsure else "resubmit"',
           'return "resubmit"', "tests/client/test_own_commit.py::test_a_repetition_starts_no_job_anew_that_has_failed_meanwhile"),
    Mutant("an act is repeated that may have happened", "client/again.py", "or (unsure and not self._harmless)", "",
           "tests/client/test_own_commit.py::test_an_operators_act_whose_answer_was_lost_is_not_repeated"),
    Mutant("a migration is recorded before it is applied", "store/migrator.py",
           "        with self.conn.transaction():\n            self._lock_timeout(LOCK_TIMEOUT, local=True)\n            for file in files:",
           "        for file in files:\n            self._record(file, kind)\n"
           "        with self.conn.transaction():\n            self._lock_timeout(LOCK_TIMEOUT, local=True)\n            for file in files:",
           "tests/store/test_schema.py::test_what_could_not_be_applied_is_not_on_record"),
    Mutant("an outage is a permanent error", "store/faults.py", '_TRANSIENT_CLASSES = frozenset({"08", "40", "53", "57", "58"})',
           '_TRANSIENT_CLASSES = frozenset({"08", "40", "53", "58"})', "tests/store/test_faults.py::test_an_error_is_what_its_code_says",
           gate=True),
    Mutant("a broken connection is a permanent error", "store/faults.py",
           "    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):\n        return True\n", "",
           "tests/store/test_faults.py::test_an_error_is_what_its_code_says"),
    Mutant("bad data is an outage", "store/faults.py", '_TRANSIENT_CLASSES = frozenset({"08", "40",', '_TRANSIENT_CLASSES = frozenset({"08", "22", "40",',
           "tests/store/test_faults.py::test_an_error_is_what_its_code_says"),
    Mutant("what the driver cannot send is an outage", "store/faults.py",
           "if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):\n        return True",
           "if isinstance(error, psycopg.Error):\n        return True",
           "tests/store/test_faults.py::test_an_error_is_what_its_code_says"),
    Mutant("the last attempt is never the last", "domain/decide.py",
           'if action == "fail" or (action == "retry" and run.attempts >= run.max_attempts):', 'if action == "fail":',
           "tests/domain/test_decide.py::test_the_fifth_failed_attempt_is_the_last", gate=True),
]  # fmt: skip

ALL = [*WORKER, *SUPERVISOR, *DUTIES, *CLIENTS]
