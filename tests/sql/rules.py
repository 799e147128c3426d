"""What the storage promises beside the findings of the review: one check for each rule of the contract."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from sql.hands import Conn, Store


async def beat_keeps_a_lease_that_is_old_by_its_claim(s: Store, c: Conn) -> None:
    """C3, STK-1: the criterion is the last beat."""
    await s.enq(c, ["b1", "b2"], "b")
    rows = await s.claim(c, 1, "b")
    await s.stale(c)
    assert (await s.beat(c, 1, rows[:1]))[rows[0]["id"]] == "ok"

    await s.rescue(c)

    assert await s.state(c, rows[0]["job_id"]) == "running"
    assert await s.state(c, rows[1]["job_id"]) == "queued"


async def order_is_priority_then_run_at_then_id(s: Store, c: Conn) -> None:
    """C2: over a task's default priority too."""
    await c.execute("insert into fencepost.task (name, priority) values ('hi', 5)")
    await s.enq(c, ["lo1", "lo2"])
    await s.enq(c, ["hi1"], task="hi")
    assert [row["job_id"] for row in await s.claim(c, 1)] == ["hi1", "lo1", "lo2"]


async def a_manual_retry_respects_a_held_key(s: Store, c: Conn) -> None:
    """R5, STK-3, UNQ-1: skipped with the holder, and nothing changed."""
    await s.enq(c, ["k1"], "k", keys=["K"])
    await s.settle(c, 1, await s.claim(c, 1, "k"), "fail")
    await s.enq(c, ["k2"], "k", keys=["K"])
    retry = "select * from fencepost.resubmit_v1('k1', 'me')"
    assert await c.fetch(retry) == [{"answer": "skipped", "holder": "k2"}]
    assert await s.cancel(c, "k2") == "cancelled"
    assert await c.fetch(retry) == [{"answer": "resubmitted", "holder": None}]
    assert await s.enq(c, ["k3"], "k", keys=["K"]) == ["skipped"]


async def a_started_body_that_must_not_run_twice_is_not_handed_back(s: Store, c: Conn) -> None:
    """W3, W12: release of at_most_once and of max_attempts=1 after the start mark is judged as lost."""
    await c.execute("insert into fencepost.task (name, at_most_once) values ('once', true)")
    await s.enq(c, ["o"], task="once")
    await s.enq(c, ["m"], opts={"max_attempts": 1})
    await s.enq(c, ["free"])
    rows = await s.claim(c, 1)
    await s.start(c, 1, rows)
    await s.settle(c, 1, rows, "release")
    assert [await s.state(c, x) for x in ("o", "m", "free")] == ["in_doubt", "failed", "queued"]


async def deadlines_are_applied_where_a_job_is_met(s: Store, c: Conn) -> None:
    """Q6, L6: start_by -> skipped, finish_by -> failed; swept where nobody claims."""
    past = {"start_by": "2020-01-01T00:00:00+00:00"}
    await s.enq(c, ["sb"], "ex", opts=past)
    await s.enq(c, ["fb"], "ex", opts={"finish_by": "2020-01-01T00:00:00+00:00"})
    assert await s.claim(c, 1, "ex") == []
    assert [await s.state(c, x) for x in ("sb", "fb")] == ["skipped", "failed"]
    await s.enq(c, ["sd"], "ex", opts=past | {"delay_s": 900})
    assert await c.fetchval("select fencepost.expire_v1(10)") == 1
    assert await s.state(c, "sd") == "skipped"


async def a_resubmission_keeps_the_run_count(s: Store, c: Conn) -> None:
    """Q3: same row, attempts 0, generation only after a success, deduplicated inside the window."""
    await s.enq(c, ["m"], opts={"max_attempts": 1})
    await s.settle(c, 1, await s.claim(c, 1), "retry", 0.0, "E")
    assert await s.state(c, "m") == "failed"
    assert await s.enq(c, ["m"], opts={"dedup_s": 0}) == ["resubmitted"]
    rows = await s.claim(c, 1)
    assert (rows[0]["run_count"], rows[0]["attempts"], rows[0]["generation"]) == (2, 1, 0)
    await s.settle(c, 1, rows)
    assert await s.enq(c, ["m"]) == ["resubmitted"]
    rows = await s.claim(c, 1)
    assert rows[0]["generation"] == 1
    await s.settle(c, 1, rows)
    assert await s.enq(c, ["m"]) == ["deduplicated"]


async def a_pause_and_quotas_hold_in_the_claim(s: Store, c: Conn) -> None:
    """C2, B20: per queue quotas, byte budget, pause at once, round-robin of a fair queue."""
    await s.enq(c, [f"x{i}" for i in range(9)], "x")
    await s.enq(c, [f"y{i}" for i in range(9)], "y")
    rows = await c.fetch("select * from fencepost.claim_v1(1, '{x,y}', '{2,3}')")
    assert sorted(row["queue"] for row in rows) == ["x", "x", "y", "y", "y"]
    assert len(await c.fetch("select * from fencepost.claim_v1(1, '{x,y}', '{9,9}', 1)")) == 1
    assert await c.fetchval("select fencepost.queue_pause_v1('x', true, 'me')") == "paused"
    rows = await c.fetch("select * from fencepost.claim_v1(1, '{x,y}', '{2,2}')")
    assert {row["queue"] for row in rows} == {"y"}
    await c.execute("select fencepost.queue_fair_v1('f', true)")
    for tenant, n in (("A", 20), ("B", 5), ("C", 5)):
        await s.enq(c, [f"{tenant}{i}" for i in range(n)], "f", opts={"tenant": tenant})
    rows = await c.fetch("select * from fencepost.claim_v1(1, '{f}', '{6}')")
    assert sorted(row["fair_key"] for row in rows) == list("AABBCC")


async def a_job_comes_back_into_the_queue_as_the_queue_is_by_then(s: Store, c: Conn) -> None:
    """C9: made plain or fair while its job ran. Found by the model: a worker of this and of a fair queue never saw it again."""
    await c.execute("select fencepost.queue_fair_v1('fair', true)")
    await c.execute("select fencepost.queue_fair_v1('was fair', true)")
    await s.enq(c, ["was fair"], "was fair", opts={"tenant": "A"})
    await s.enq(c, ["was plain"], "was plain", opts={"tenant": "A"})
    rows = await s.claim(c, 1, ["was fair", "was plain"])
    await c.execute("select fencepost.queue_fair_v1('was fair', false)")
    await c.execute("select fencepost.queue_fair_v1('was plain', true)")

    await s.settle(c, 1, rows, ["retry", "release"])

    again = await c.fetch("select * from fencepost.claim_v1(1, '{was fair,was plain,fair}', '{1,1,1}')")
    assert {row["job_id"]: row["fair_key"] for row in again} == {"was fair": None, "was plain": "A"}


async def the_labels_come_in_the_promised_precedence(s: Store, c: Conn) -> None:
    """L1: lost, recovered, retrying, scheduled, parked, paused; the state is one of seven all the same."""
    await s.enq(c, ["retrying", "recovered", "lost"])
    rows = {row["job_id"]: row for row in await s.claim(c, 1)}
    await s.settle(c, 1, [rows["retrying"]], "retry", 60.0, "E", "boom")
    await s.stale(c)
    lost = await s.job(c, "lost")
    await c.execute("update fencepost.running set heartbeat_at = now() where id = $1::bigint", rows["lost"]["id"])
    await s.rescue(c)
    await s.stale(c)
    await s.enq(c, ["scheduled"], opts={"delay_s": 60})
    await s.enq(c, ["first"], "k", ckeys=["K"])
    await s.claim(c, 1, "k")
    await s.enq(c, ["parked"], "k", ckeys=["K"])
    await s.claim(c, 1, "k")
    await s.enq(c, ["paused"], "p")
    await c.execute("select fencepost.queue_pause_v1('p', true, 'me')")

    names = ("lost", "recovered", "retrying", "scheduled", "parked", "paused")
    assert {name: (await s.job(c, name))["label"] for name in names} == {name: name for name in names}
    assert (lost["state"], lost["label"]) == ("running", "lost")
    assert await s.states(c, *names) == ["running", *["queued"] * 5]
    assert (await s.job(c, "retrying"))["next_retry_at"] is not None
    assert (await s.job(c, "scheduled"))["next_retry_at"] is None


async def a_lost_lease_is_recorded_and_the_job_runs_again(s: Store, c: Conn) -> None:
    """C6, L3, L5, STK-1: attempt spent, the run reads stale, the reason is the job's last error."""
    await s.enq(c, ["j"])
    rows = await s.claim(c, 7)
    await s.beat(c, 7, rows)
    await s.stale(c)
    await s.rescue(c)

    run = (await s.runs(c, "j"))[0]
    job = await s.job(c, "j")
    assert (run["how"], run["spent"], run["error_code"], run["token"]) == ("stale", True, "STALE", 7)
    assert (job["state"], job["attempts"], job["run_count"], job["crashes"]) == ("queued", 1, 1, 1)
    assert (job["last_error_code"], job["last_error"]) == ("STALE", "no beat for longer than the lease")
    again = await s.claim(c, 8)
    assert [(row["run_count"], row["attempts"]) for row in again] == [(2, 2)]


async def a_lost_lease_without_attempts_left_fails(s: Store, c: Conn) -> None:
    """C6: code STALE, and the key is free."""
    await s.enq(c, ["j"], keys=["K"], opts={"max_attempts": 2})
    for token in (1, 2):
        await s.start(c, token, await s.claim(c, token))
        await s.stale(c)
        await s.rescue(c)
        await c.execute("update fencepost.delayed set run_at = now()")
        await s.promote(c)
    job = await s.job(c, "j")
    assert (job["state"], job["last_error_code"], job["stale"]) == ("failed", "STALE", True)
    assert await s.enq(c, ["k"], keys=["K"]) == ["created"]


async def the_ttl_lies_with_the_lease(s: Store, c: Conn) -> None:
    """C4, C10: the task's, else the claiming worker's; a grace only lengthens it."""
    await s.task(c, "own", ttl_s=0.1)
    await s.enq(c, ["own"], task="own")
    await s.enq(c, ["workers"])
    rows = await c.fetch("select * from fencepost.claim_v1(1, '{q}', '{9}', p_ttl_s => 1000)")
    assert {row["job_id"]: row["ttl_s"] for row in rows} == {"own": 0.1, "workers": 1000.0}
    await c.execute("select pg_sleep(0.15)")
    assert len(await c.fetch("select * from fencepost.rescue_v1(10, 60)")) == 0
    assert len(await c.fetch("select * from fencepost.rescue_v1(10)")) == 1
    assert await s.states(c, "own", "workers") == ["queued", "running"]


async def a_dead_process_has_four_classes_of_jobs(s: Store, c: Conn) -> None:
    """W11: crash suspects, overdue, interrupted, never started."""
    await s.enq(c, ["crashed", "overdue", "stopped", "buffered"])
    by = {row["job_id"]: row for row in await s.claim(c, 5)}
    became = await s.rescue_process(c, 5, started=[by["crashed"]], overdue=[by["overdue"]], interrupted=[by["stopped"]])
    assert set(became.values()) == {"queued"}
    seen = {name: await s.job(c, name) for name in by}
    assert {name: (job["attempts"], job["crashes"]) for name, job in seen.items()} == {
        "crashed": (1, 1), "overdue": (1, 0), "stopped": (0, 0), "buffered": (0, 0),
    }  # fmt: skip
    assert {name: job["last_error_code"] for name, job in seen.items()} == {
        "crashed": "STALE", "overdue": "TIMEOUT", "stopped": None, "buffered": None,
    }  # fmt: skip
    hows = {name: (await s.runs(c, name))[0]["how"] for name in by}
    assert hows == {"crashed": "stale", "overdue": "timeout", "stopped": "release", "buffered": "release"}


async def a_body_that_must_not_run_twice_ends_in_doubt_however_its_process_died(s: Store, c: Conn) -> None:
    """W12, L7: started, overdue and interrupted bodies; one that never started runs."""
    await s.task(c, "once", at_most_once=True)
    await s.enq(c, ["crashed", "overdue", "stopped", "buffered"], task="once", keys=["a", "b", "c", "d"])
    by = {row["job_id"]: row for row in await s.claim(c, 5)}
    await s.rescue_process(c, 5, started=[by["crashed"]], overdue=[by["overdue"]], interrupted=[by["stopped"]])
    assert await s.states(c, *by) == ["in_doubt", "in_doubt", "in_doubt", "queued"]
    assert (await s.job(c, "buffered"))["attempts"] == 0
    assert await s.enq(c, ["x"], task="once", keys=["a"]) == ["skipped"]  # doubt keeps its key
    await s.purge(c)
    assert await s.state(c, "crashed") == "in_doubt"


async def one_attempt_is_one_start(s: Store, c: Conn) -> None:
    """W3, C6: max_attempts=1: handed back before the start mark, failed after it, whoever ends the run."""
    await s.enq(c, [f"{x}{i}" for x in ("fresh", "begun") for i in range(3)], opts={"max_attempts": 1})
    rows = await s.claim(c, 5)
    begun = [row for row in rows if row["job_id"].startswith("begun")]
    await s.start(c, 5, begun)
    picked = {row["job_id"]: row for row in rows}
    await s.settle(c, 5, [picked["fresh0"], picked["begun0"]], "release")
    await s.rescue_process(c, 5, interrupted=[picked["begun1"]], overdue=[picked["begun2"]])
    assert await s.states(c, "fresh0", "fresh1", "fresh2") == ["queued"] * 3
    ended = [await s.job(c, name) for name in ("begun0", "begun1", "begun2")]
    assert [(job["state"], job["last_error_code"]) for job in ended] == [
        ("failed", "STALE"), ("failed", "STALE"), ("failed", "TIMEOUT"),
    ]  # fmt: skip
    rows = await s.claim(c, 6)
    await s.stale(c)
    await s.rescue(c)
    assert await s.states(c, "fresh0", "fresh1", "fresh2") == ["queued"] * 3


async def an_at_most_once_body_ends_by_its_own_word(s: Store, c: Conn) -> None:
    """W12, R3: a raised error or a pause that was merely classified fails it; a Snooze hands it back."""
    await s.task(c, "once", at_most_once=True)
    await s.enq(c, ["raised", "snoozed"], task="once")
    rows = {row["job_id"]: row for row in await s.claim(c, 1)}
    await s.start(c, 1, list(rows.values()))
    await s.settle(c, 1, [rows["raised"]], "retry", 5.0, "PROVIDER_5XX", "boom")
    await s.settle(c, 1, [rows["snoozed"]], "snooze", 0.0, "SNOOZED")
    raised = await s.job(c, "raised")
    assert (raised["state"], raised["last_error_code"]) == ("failed", "PROVIDER_5XX")
    assert [row["job_id"] for row in await s.claim(c, 2)] == ["snoozed"]


async def unpaid_pauses_are_bounded(s: Store, c: Conn) -> None:
    """R3, R6: the hundred and first snooze spends an attempt; snoozes, attempts and crashes are counted apart."""
    await s.enq(c, ["j"], opts={"max_attempts": 2})
    await c.execute("update fencepost.ready set snoozes = 99")
    for snoozes, attempts in ((100, 0), (100, 1)):
        await s.settle(c, 1, await s.claim(c, 1), "snooze", 0.0, "SNOOZED")
        job = await s.job(c, "j")
        assert (job["snoozes"], job["attempts"], job["crashes"]) == (snoozes, attempts, 0)
    await s.settle(c, 1, await s.claim(c, 1), "snooze", 0.0, "RATE_LIMITED")
    job = await s.job(c, "j")
    assert (job["state"], job["last_error_code"]) == ("failed", "RATE_LIMITED")


async def exhausted_attempts_fail_with_the_handlers_code(s: Store, c: Conn) -> None:
    """R4: code, error and step statistics are kept, of the last run and of those before."""
    await s.enq(c, ["j"], opts={"max_attempts": 2})
    for code in ("E1", "E2"):
        rows = await s.claim(c, 1)
        await c.fetch(
            "select * from fencepost.settle_v1(1, array[$1::bigint], array[$2::int], '{retry}', '{0}', array[$3::text], "
            "array[$4::text], null, array[$5::text])",
            rows[0]["id"], rows[0]["run_count"], code, f"text of {code}", '{"steps": {"fetch": 0.5}}',
        )  # fmt: skip
    job = await s.job(c, "j")
    assert (job["state"], job["last_error_code"], job["last_error"]) == ("failed", "E2", "text of E2")
    runs = await s.runs(c, "j")
    assert [(run["how"], run["error_code"]) for run in runs] == [("retry", "E1"), ("failed", "E2")]
    assert [run["stats"] for run in runs] == [{"steps": {"fetch": 0.5}}] * 2


async def a_deadline_ends_every_road_back(s: Store, c: Conn) -> None:
    """Q6: too late for the next run means failed DEADLINE; what succeeds late has succeeded."""
    names = ["retry", "snooze", "lost", "done"]
    soon = (await c.fetchval("select clock_timestamp() + interval '20 s'")).isoformat()
    await s.enq(c, names, opts={"finish_by": soon})
    by = {row["job_id"]: row for row in await s.claim(c, 1)}
    await s.settle(c, 1, [by["retry"]], "retry", 60.0, "E", "boom")
    await s.settle(c, 1, [by["snooze"]], "snooze", 60.0, "SNOOZED")
    await c.execute("update fencepost.running set finish_by = clock_timestamp() - interval '1 s'")
    await s.settle(c, 1, [by["done"]])
    await s.stale(c)
    await s.rescue(c)
    assert await s.states(c, *names) == ["failed", "failed", "failed", "succeeded"]
    assert [(await s.job(c, name))["last_error_code"] for name in names[:3]] == ["DEADLINE"] * 3
    assert (await s.job(c, "retry"))["last_error"] == "boom"


async def the_same_job_id_with_other_arguments_says_so(s: Store, c: Conn) -> None:
    """Q11: `differs`; the stored arguments stay."""
    ask = "select answer, differs, job_id, holder from fencepost.enqueue('t', $1::jsonb, $2, p_unique_key => $3)"
    await c.fetch(ask, '{"a": 1}', "j", "K")
    assert (await c.fetch(ask, '{"a": 1.0}', "j", "K"))[0]["differs"] is False
    assert (await c.fetch(ask, '{"a": 2}', "j", "K"))[0]["differs"] is True
    assert await c.fetch(ask, '{"a": 2}', "other", "K") == [
        {"answer": "skipped", "differs": False, "job_id": "other", "holder": "j"}
    ]
    assert (await s.job(c, "j"))["payload"] == {"a": 1}


async def a_resubmission_takes_the_new_arguments_and_drops_the_checkpoint(s: Store, c: Conn) -> None:
    """Q3: everything of the new call counts; attempts start again, run_count goes on, history stays."""
    await c.fetch(
        "select fencepost.enqueue('t', '{\"a\": 1}', 'j', p_queue => 'q', p_tags => '{old}', p_unique_key => 'K')"
    )
    rows = await s.claim(c, 1)
    await c.fetchval("select fencepost.checkpoint_v1(1, $1::bigint, 1, '{\"row\": 7}')", rows[0]["id"])
    await s.settle(c, 1, rows, "fail", 0.0, "E", "boom")
    again = "select fencepost.enqueue('t', '{\"a\": 2}', 'j', p_queue => 'r', p_priority => 3, p_tags => '{new}', p_unique_key => 'L')"
    await c.fetch(again)
    job = await s.job(c, "j")
    assert (job["payload"], job["queue"], job["priority"], job["tags"]) == ({"a": 2}, "r", 3, ["new"])
    assert (job["attempts"], job["run_count"], job["checkpoint"], job["resubmits"]) == (0, 1, None, 1)
    assert await s.enq(c, ["k", "l"], keys=["K", "L"]) == ["created", "skipped"]
    assert [run["how"] for run in await s.runs(c, "j")] == ["failed"]


async def an_operators_retry_keeps_arguments_and_checkpoint(s: Store, c: Conn) -> None:
    """R5, Q3: and drops the deadlines, counts, and leaves an audit row."""
    late = (await c.fetchval("select clock_timestamp() + interval '1 h'")).isoformat()
    await s.enq(c, ["j"], opts={"finish_by": late, "start_by": late})
    rows = await s.claim(c, 1)
    await c.fetchval("select fencepost.checkpoint_v1(1, $1::bigint, 1, '{\"row\": 7}')", rows[0]["id"])
    await s.settle(c, 1, rows, "fail", 0.0, "E", "boom")
    assert await c.fetch("select * from fencepost.resubmit_v1('j', 'ann', 'mended')") == [
        {"answer": "resubmitted", "holder": None}
    ]
    job = await s.job(c, "j")
    assert (job["checkpoint"], job["manual"], job["generation"]) == ({"row": 7}, 1, 0)
    assert (job["start_by"], job["finish_by"]) == (None, None)
    audit = await c.fetch("select actor, action, reason, was, became from fencepost.audit")
    assert audit == [{"actor": "ann", "action": "resubmit", "reason": "mended", "was": "failed", "became": "queued"}]
    assert await c.fetchval("select answer from fencepost.resubmit_v1('j', 'ann')") == "active"
    assert await c.fetchval("select answer from fencepost.resubmit_v1('nobody', 'ann')") == "unknown"


async def a_doubt_waits_for_a_verdict(s: Store, c: Conn) -> None:
    """L7: it holds its job_id and key until somebody resolves it, whatever the verdict."""
    verdicts = ("succeeded", "failed", "cancelled", "queued")
    await s.enq(c, list(verdicts), keys=list(verdicts))
    await s.settle(c, 1, await s.claim(c, 1), "doubt", 0.0, "IN_DOUBT")
    assert await s.enq(c, list(verdicts), keys=list(verdicts)) == ["in_doubt"] * 4
    assert await c.fetchval("select answer from fencepost.resubmit_v1('failed', 'me')") == "in_doubt"
    assert await c.fetchval("select fencepost.discard_v1('failed', 'me')") == "in_doubt"
    for verdict in verdicts:
        assert await c.fetchval("select fencepost.resolve_v1($1, $1, 'me', 'looked')", verdict) == "resolved"
        assert await c.fetchval("select fencepost.resolve_v1($1, 'failed', 'me')", verdict) == "not_in_doubt"
    assert await s.states(c, *verdicts) == list(verdicts)
    assert await s.enq(c, ["a", "b", "c", "d"], keys=list(verdicts)) == ["created"] * 3 + ["skipped"]
    assert await c.fetchval("select count(*) from fencepost.audit where action = 'resolve' and reason = 'looked'") == 4


async def a_cancel_finds_the_job_wherever_it_is(s: Store, c: Conn) -> None:
    """W8, A3: queued in any place at once, running as a request, over as an answer; audited; the key is free."""
    await s.enq(c, ["ready", "ended"], keys=["R", "E"])
    await s.enq(c, ["delayed"], keys=["D"], opts={"delay_s": 60})
    await s.enq(c, ["first"], "k", ckeys=["G"])
    first = await s.claim(c, 1, "k")
    await s.enq(c, ["parked"], "k", keys=["P"], ckeys=["G"])
    await s.claim(c, 1, "k")
    by = {row["job_id"]: row for row in await s.claim(c, 2, n=1)}
    await s.settle(c, 2, [by["ready"]], "release")
    await s.settle(c, 3, [row for row in await s.claim(c, 3) if row["job_id"] == "ended"])
    await s.settle(c, 3, await c.fetch("select id, run_count from fencepost.running where token = 3"), "release")
    answers = [await s.cancel(c, name) for name in ("ready", "delayed", "parked", "first", "ended", "nobody")]
    assert answers == ["cancelled", "cancelled", "cancelled", "requested", "finished", "unknown"]
    assert (await s.beat(c, 1, first)) == {first[0]["id"]: "cancel"}
    assert (await s.start(c, 1, first)) == {first[0]["id"]: "cancel"}
    assert await s.enq(c, ["r", "d", "p"], keys=["R", "D", "P"]) == ["created"] * 3
    assert await c.fetchval("select count(*) from fencepost.audit where action = 'cancel'") == 5


async def a_beat_speaks_for_several_processes(s: Store, c: Conn) -> None:
    """C3, C5: one statement for all children of a supervisor; worker rows too, also of idle ones; gaps are kept."""
    for token in (1, 2, 3):
        await c.execute("select fencepost.register_v1($1::bigint, 'h', 1, '{}')", token)
    await c.execute("update fencepost.worker set heartbeat_at = now() - interval '1 h'")
    await s.enq(c, ["a", "b", "c"])
    rows = [row for token in (1, 2) for row in await s.claim(c, token, n=1)]
    await c.execute("update fencepost.running set claimed_at = now() - interval '9 s'")
    answers = await c.fetch(
        "select * from fencepost.heartbeat_v1('{1,2,1}', $1::bigint[], '{1,1,1}', '{true,false,false}', null, '{3}')",
        [rows[0]["id"], rows[1]["id"], rows[1]["id"]],
    )
    assert [row["answer"] for row in answers] == ["ok", "ok", "lost"]
    assert await c.fetchval("select count(*) from fencepost.worker where heartbeat_at > now() - interval '1 min'") == 3
    assert [run["started_at"] is not None for x in ("a", "b") for run in await s.runs(c, x)] == [True, False]
    gap = (await s.runs(c, "a"))[0]["max_gap_s"]
    assert 8.9 < gap < 20
    assert await c.fetch("select * from fencepost.heartbeat_v1('{}', '{}', '{}', p_workers => '{3}')") == []


async def an_unstorable_progress_costs_no_lease(s: Store, c: Conn) -> None:
    """W9, R8: it is dropped; the beat and the start mark stay."""
    await s.enq(c, ["a", "b"])
    rows = await s.claim(c, 1)
    await s.stale(c)
    got = await c.fetch(
        "select * from fencepost.heartbeat_v1('{1,1}', $1::bigint[], '{1,1}', '{true,true}', $2::text[])",
        [row["id"] for row in rows], ['{"p": 1}', '{"p": "\\u0000"}'],
    )  # fmt: skip
    assert [row["answer"] for row in got] == ["ok", "ok"]
    assert await c.fetchval("select count(*) from fencepost.running where started_at is not null") == 2
    assert await s.rescue(c) == 0


async def a_claim_hands_out_all_that_a_run_needs(s: Store, c: Conn) -> None:
    """Q6, Q7: arguments as text, tags, metadata, counters."""
    await s.task(c, "t", queue="z", priority=4, max_attempts=9, version=3, ttl_s=12)
    await c.fetch(
        "select fencepost.enqueue('t', '{\"n\": 123456789012345678901234567890}', 'j', p_tags => '{a,b}', "
        "p_meta => '{\"m\": null}', p_finish_by => clock_timestamp() + interval '1 h')"
    )
    (row,) = await s.claim(c, 1, "z")
    assert (row["job_id"], row["task"], row["version"], row["queue"]) == ("j", "t", 3, "z")
    assert (row["attempts"], row["max_attempts"], row["ttl_s"], row["run_count"]) == (1, 9, 12.0, 1)
    assert (row["payload"], row["meta"]) == ('{"n": 123456789012345678901234567890}', '{"m": null}')
    assert (row["tags"], row["checkpoint"], row["at_most_once"]) == (["a", "b"], None, None)
    assert row["finish_by"] > row["run_at"]


async def a_key_limit_is_exact_and_lets_in_what_fits(s: Store, c: Conn) -> None:
    """C7: over queues and workers; a higher limit lets in at once, blocked jobs hold no slot."""
    await c.execute("select fencepost.gate_limit_v1('G', 3)")
    await s.enq(c, [f"a{i}" for i in range(5)], "a", ckeys=["G"] * 5)
    await s.enq(c, [f"b{i}" for i in range(5)], "b", ckeys=["G"] * 5)
    rows = await s.claim(c, 1, ["a", "b"])
    assert len(rows) == 3
    assert await s.claim(c, 2, ["a", "b"]) == []
    await c.execute("select fencepost.gate_limit_v1('G', 5)")
    assert len(await s.claim(c, 3, ["a", "b"])) == 2
    await c.execute("update fencepost.gate set used = 1")
    assert len(await s.fsck(c)) == 1
    assert await c.fetchval("select fencepost.gate_recount_v1('{G}')") == 1
    assert await s.fsck(c) == []


async def a_rescue_gives_back_slots_at_the_next_promotion(s: Store, c: Conn) -> None:
    """C7, C6: it takes no gate itself; nothing is lost meanwhile."""
    await s.enq(c, ["one", "two"], ckeys=["G", "G"])
    await s.claim(c, 1)
    await s.stale(c)
    assert await s.rescue(c) == 1
    assert await s.fsck(c) == []
    await s.promote(c)
    assert len(await s.claim(c, 2)) == 1


async def new_retention_reaches_what_has_ended(s: Store, c: Conn) -> None:
    """L4: in batches; a dedup window still wins, a doubt stays."""
    await s.enq(c, [f"j{i}" for i in range(5)], task="t")
    rows = await s.claim(c, 1)
    await s.settle(c, 1, rows, ["succeed", "succeed", "fail", "fail", "doubt"])
    await s.task(c, "t", keep_ok_s=1, keep_bad_s=1, dedup_s=3600)
    changed, rounds = 0, 0
    after: int | None = 0
    while after is not None:
        (row,) = await c.fetch("select * from fencepost.retention_v1('t', 2, $1::bigint)", after)
        changed, after, rounds = changed + row["changed"], row["go_on_after"], rounds + 1
    assert (changed, rounds) == (4, 3)
    left = await c.fetch(
        "select o.state, extract(epoch from o.purge_at - o.finished_at)::int as s from fencepost.outcome o order by id"
    )
    assert [tuple(row.values()) for row in left] == [
        ("succeeded", 3600), ("succeeded", 3600), ("failed", 1), ("failed", 1), ("in_doubt", None),
    ]  # fmt: skip


async def what_cannot_be_purged_stops_no_other(s: Store, c: Conn) -> None:
    """C12, L4: a user's foreign key keeps its row, by a day at a time, visibly."""
    await s.enq(c, ["kept", "gone", "gone too"])
    await s.settle(c, 1, await s.claim(c, 1), "fail", 0.0, "E")
    await c.execute("create table orders (job bigint references fencepost.job (id))")
    await c.execute("insert into orders select id from fencepost.job where job_id = 'kept'")
    await c.execute("update fencepost.outcome set purge_at = now()")
    assert await c.fetchval("select fencepost.purge_v1(10)") == 2
    assert await c.fetchval("select fencepost.purge_v1(10)") == 0
    assert [row["job_id"] for row in await c.fetch("select job_id from fencepost.job")] == ["kept"]
    assert await c.fetchval("select sum(n) from fencepost.daily where code = 'E'") == 2
    assert await c.fetchval("select reason from fencepost.quarantine") is not None
    await c.execute("drop table orders")


async def durations_at_the_edges_stop_no_other(s: Store, c: Conn) -> None:
    """C12, C10, RTR-6: a ttl, a retention and a window that no arithmetic takes; the others are rescued, settled, looked at."""
    await s.enq(c, ["stale", "endless", "short", "done", "new"])
    rows = {row["job_id"]: row for row in await s.claim(c, 1)}
    await s.stale(c)
    await c.execute("update fencepost.running set ttl_s = 'nan' where id = $1", rows["endless"]["id"])
    await c.execute("update fencepost.running set ttl_s = '-infinity' where id = $1", rows["short"]["id"])
    await c.execute("update fencepost.running set ttl_s = 1e308, keep_ok_s = 1e308 where id = $1", rows["done"]["id"])
    assert await s.settle(c, 1, [rows["done"], rows["new"]]) == {
        rows[name]["id"]: "accepted" for name in ("done", "new")
    }
    await s.rescue(c)
    assert await s.states(c, "stale", "endless", "short", "done") == ["queued", "running", "queued", "succeeded"]
    await c.execute("update fencepost.job set dedup_s = 'infinity' where job_id = 'done'")
    assert await s.enq(c, ["done", "other"]) == ["deduplicated", "created"]
    await c.execute("insert into fencepost.task (name, keep_ok_s) values ('t', 'infinity')")
    assert await c.fetchval("select changed from fencepost.retention_v1('t', 10)") == 1


async def a_beat_of_the_future_keeps_nothing(s: Store, c: Conn) -> None:
    """C12, C10, DEP-2: neither a lease, for which nobody would ever come, nor what is parked moving in circles."""
    await s.enq(c, ["a", "b"])
    rows = await s.claim(c, 1)
    await c.execute("update fencepost.running set heartbeat_at = 'infinity' where id = $1", rows[0]["id"])
    await s.settle(c, 1, rows[1:], "park")
    await c.execute("insert into fencepost.worker (token, tasks, heartbeat_at) values (7, '{\"t\": 1}', 'infinity')")
    await s.rescue(c)
    assert await s.states(c, "a", "b") == ["queued", "queued"]
    assert await c.fetchval("select fencepost.wake_known_v1(10)") == 0
    await c.execute("update fencepost.worker set heartbeat_at = clock_timestamp()")
    assert await c.fetchval("select fencepost.wake_known_v1(10)") == 1


async def a_beat_goes_on_beside_a_lease_of_no_time(s: Store, c: Conn) -> None:
    """C5, C12: the gap since an infinite time is no number."""
    await s.enq(c, ["a", "b"])
    rows = await s.claim(c, 1)
    await c.execute("update fencepost.running set claimed_at = '-infinity' where id = $1", rows[0]["id"])
    assert set((await s.beat(c, 1, rows)).values()) == {"ok"}


async def a_run_that_cannot_be_counted_ends(s: Store, c: Conn) -> None:
    """C12: the fence needs a number for each run."""
    await s.enq(c, ["last", "next"])
    await c.execute("update fencepost.ready set run_count = 2147483647 where id = 1")
    assert [row["job_id"] for row in await s.claim(c, 1)] == ["next"]
    job = await s.job(c, "last")
    assert (job["state"], job["last_error_code"]) == ("failed", "UNSTORABLE")


async def the_pause_after_a_crash_has_a_bound(s: Store, c: Conn) -> None:
    """C12, R6, RTR-1: 2 to the power of thousands is no number."""
    await s.enq(c, ["j"])
    await s.claim(c, 1)
    await c.execute("update fencepost.running set crashes = 5000, max_crashes = 32000")
    await s.stale(c)
    await s.rescue(c)
    assert await c.fetchval("select reason from fencepost.delayed") == "crash"


async def a_lease_that_fits_nowhere_ends_where_it_is_seen(s: Store, c: Conn) -> None:
    """C12, STK-3: counters that no place of the queue takes; the neighbours are settled and rescued."""
    await s.enq(c, ["a", "b", "c", "d"])
    rows = await s.claim(c, 1)
    await c.execute("update fencepost.running set attempts = 32766, max_attempts = 32767 where id in (1, 3)")
    assert set((await s.settle(c, 1, rows[:2], "retry", 0.0, "E")).values()) == {"accepted"}
    await s.stale(c)
    await s.rescue(c)
    assert await s.states(c, "a", "b", "c", "d") == ["failed", "queued", "failed", "queued"]
    assert {(await s.job(c, name))["last_error_code"] for name in ("a", "c")} == {"UNSTORABLE"}
    assert await c.fetch("select * from fencepost.quarantine") == []


async def texts_too_long_for_the_daily_counts_stop_no_purge(s: Store, c: Conn) -> None:
    """C12, L4: a code of thousands of characters fits into no index."""
    await s.enq(c, ["wide", "plain"])
    await s.settle(c, 1, await s.claim(c, 1), "fail", 0.0, "E")
    await c.execute("update fencepost.outcome set purge_at = now()")
    wide = "".join(chr(0x4E00 + n) for n in range(3000))
    await c.execute("update fencepost.outcome set error_code = $1 where id = 1", wide)
    await c.execute("update fencepost.job set task = $1 where id = 1", wide)
    assert await c.fetchval("select fencepost.purge_v1(10)") == 2


async def a_gate_at_the_edge_of_its_type_lets_in(s: Store, c: Conn) -> None:
    """C7, C12: limit minus used is more than an int holds."""
    await c.execute("insert into fencepost.gate (ckey, lim, used) values ('k', 2147483647, -2147483648)")
    await s.enq(c, ["keyed", "plain"], ckeys=["k", None])
    rows = await s.claim(c, 1)
    assert [row["job_id"] for row in rows] == ["keyed", "plain"]
    await c.execute("update fencepost.gate set used = -2147483648")
    assert set((await s.settle(c, 1, rows)).values()) == {"accepted"}
    assert await c.fetchval("select used from fencepost.gate") == 0


async def an_ended_job_can_be_discarded(s: Store, c: Conn) -> None:
    """A3: with its history, audited; then its job_id is new again."""
    await s.enq(c, ["j"])
    assert await c.fetchval("select fencepost.discard_v1('j', 'me')") == "active"
    await s.settle(c, 1, await s.claim(c, 1), "fail", 0.0, "E")
    assert await c.fetchval("select fencepost.discard_v1('j', 'me', 'wrong')") == "discarded"
    assert await c.fetchval("select fencepost.discard_v1('j', 'me')") == "unknown"
    assert await s.enq(c, ["j"]) == ["created"]
    assert await c.fetchval("select target from fencepost.audit where action = 'discard'") == "j"


async def workers_publish_what_changed(s: Store, c: Conn) -> None:
    """Q10: an old worker takes nothing back from a newer one."""
    publish = "select fencepost.publish_tasks_v1($1::jsonb)"
    row: dict[str, Any] = {
        "name": "t", "version": 2, "queue": "q", "priority": 0, "max_attempts": 5, "max_crashes": 3,
        "on_lost": "requeue", "at_most_once": False, "lease_only": True, "ttl_s": 9.5, "dedup_s": 1.5,
        "keep_ok_s": 1.0, "keep_bad_s": 1.0,
    }  # fmt: skip
    written = [
        await c.fetchval(publish, json.dumps([one]))
        for one in (row, row, row | {"queue": "r"}, row | {"version": 1, "queue": "old"})
    ]
    assert written == [1, 0, 1, 0]
    assert await c.fetchval("select queue from fencepost.task") == "r"
    assert await c.fetchval("select lease_only from fencepost.task")


async def a_pause_is_audited_once(s: Store, c: Conn) -> None:
    """A3: a repetition changes nothing and says so."""
    pause = "select fencepost.queue_pause_v1('q', $1::boolean, 'me', 'why')"
    assert [await c.fetchval(pause, on) for on in (True, True, False, False)] == [
        "paused", "unchanged", "resumed", "unchanged",
    ]  # fmt: skip
    assert await c.fetchval("select count(*) from fencepost.audit where target = 'q'") == 2


async def a_wrong_call_of_the_public_function_is_a_sentence(s: Store, c: Conn) -> None:
    """Q10: it names the argument, before anything is done."""
    for call, word in (
        ("''", "p_task"),
        ("'t', '[1]'", "p_payload"),
        ("'t', p_delay_s => -1", "p_delay_s"),
        ("'t', p_delay_s => 'nan'", "p_delay_s"),
        ("'t', p_run_at => now(), p_delay_s => 1", "p_run_at"),
        ("'t', p_run_at => 'infinity'", "p_run_at"),
        ("'t', p_priority => 99999", "p_priority"),
        ("'t', p_max_attempts => 0", "p_max_attempts"),
        ("'t', p_dedup_s => -1", "p_dedup_s"),
        ("repeat('t', 200)", "p_task"),
        ("'t', p_job_id => ''", "p_job_id"),
        ("'t', p_unique_key => repeat('x', 3000)", "p_unique_key"),
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=word):
            await c.fetch(f"select fencepost.enqueue({call})")
    assert await c.fetchval("select count(*) from fencepost.job") == 0


async def a_batch_answers_as_its_rows_would_one_by_one(s: Store, c: Conn) -> None:
    """Q5: keyed and plain, known and new, twice in one batch."""
    await s.enq(c, ["known", "done", "failed"], keys=["K", None, None])
    by = {row["job_id"]: row for row in await s.claim(c, 1)}
    await s.settle(c, 1, [by["done"], by["failed"]], ["succeed", "fail"])
    ids = ["new", "known", "done", "failed", "keyed1", "keyed2", "other", "keyed1", "late", "new"]
    keys = [None, "K", None, None, "A", "B", "K", "A", "A", None]
    assert await s.enq(c, ids, keys=keys) == [
        "created", "exists", "deduplicated", "resubmitted", "created", "created", "skipped", "exists", "skipped",
        "exists",
    ]  # fmt: skip
    assert await s.enq(c, ["x1", "x2", "x3"], keys=["X", "Y", "Z"]) == ["created"] * 3
    assert await s.enq(c, ["x1", "x9", "x2"], keys=["X", "Z", "Y"]) == ["exists", "skipped", "exists"]
    assert await s.enq(c, ["y1", "y2"], keys=["same", "same"]) == ["created", "skipped"]
    first = await s.claim(c, 2, n=2)
    assert [row["job_id"] for row in first] == ["failed", "new"]  # in the order of the input, not of the ids


async def a_late_write_of_an_earlier_run_changes_nothing(s: Store, c: Conn) -> None:
    """C3, FEN-1: the same process lost the job and claimed it again; its old thread returns late."""
    await s.enq(c, ["j"])
    old = await s.claim(c, 1)
    await s.stale(c)
    await s.rescue(c)
    new = await s.claim(c, 1)
    assert await s.settle(c, 1, old) == {old[0]["id"]: "lost"}
    assert await s.beat(c, 1, old) == {old[0]["id"]: "lost"}
    assert await s.start(c, 1, old) == {old[0]["id"]: "lost"}
    assert await s.state(c, "j") == "running"
    assert await s.settle(c, 1, new) == {new[0]["id"]: "accepted"}
    assert [(run["how"], run["refused"]) for run in await s.runs(c, "j")] == [("stale", 1), ("succeeded", 0)]


async def a_key_limit_holds_without_its_gate_row(s: Store, c: Conn) -> None:
    """C7, A6: a gate that a restore forgot, or that somebody holds, lets nobody through unseen, and loses nobody."""
    await s.enq(c, ["one", "two"], ckeys=["G", "G"])
    holder = await s.conn()
    await c.execute("select fencepost.gate_limit_v1('G', 1)")
    await holder.begin()
    await holder.execute("select from fencepost.gate for update")
    assert await s.claim(c, 1) == []
    await holder.rollback()
    assert len(await s.claim(c, 1)) == 1
    assert await s.fsck(c) == []


async def an_answer_of_enqueue_locks_nothing(s: Store, c: Conn) -> None:
    """Q11: while a caller that was answered keeps its transaction open, the job can be purged, retried and answered."""
    await s.enq(c, ["j"], keys=["K"])
    await s.settle(c, 1, await s.claim(c, 1))
    caller = await s.conn()
    await caller.begin()
    assert await s.enq(caller, ["j", "k"], keys=["K", "L"]) == ["deduplicated", "created"]
    await c.execute("update fencepost.outcome set purge_at = now()")
    assert await s.unhindered(c.fetchval("select fencepost.purge_v1(10)")) == 1
    await caller.rollback()


async def a_batch_is_taken_in_id_order_whatever_its_acts(s: Store, c: Conn) -> None:
    """Q11: two statements end a mixed batch, one lock order holds for both; also where it is settled one by one."""
    await s.enq(c, ["a", "b"])
    rows = await s.claim(c, 1)
    other = await s.conn()
    await other.begin()
    await other.execute("select from fencepost.running where id = $1 for update", rows[0]["id"])

    settling = asyncio.create_task(s.settle(await s.conn(), 1, rows, ["retry", "succeed"]))
    while not await c.fetchval("select count(*) from pg_locks where not granted"):
        await asyncio.sleep(0.005)
    free = await c.fetch("select id from fencepost.running for update skip locked")
    await other.rollback()

    assert [row["id"] for row in free] == [rows[1]["id"]]
    assert set((await settling).values()) == {"accepted"}

    await s.enq(c, ["c", "d"])
    backwards = [row for row in await s.claim(c, 1) if row["job_id"] in ("c", "d")][::-1]
    told = await s.settle(c, 1, backwards, results=["no json", None])
    assert list(told) == sorted(told)
    assert await s.states(c, "c", "d") == ["succeeded", "failed"]


async def no_write_of_another_run_or_process_changes_anything(s: Store, c: Conn) -> None:
    """C3: beat, progress, start, checkpoint, retry: one part of the fence wrong, in a batch with the right one or alone."""
    await s.enq(c, ["j"])
    await s.settle(c, 7, await s.claim(c, 7), "retry", 0.0, "E")
    (row,) = await s.claim(c, 7)
    look = "select r.*, k.checkpoint from fencepost.running r left join fencepost.carry k using (id)"
    save = "select fencepost.checkpoint_v1($1::bigint, $2::bigint, $3::int, '{}')"
    both = "select * from fencepost.heartbeat_v1($1::bigint[], $2::bigint[], $3::int[], $4::boolean[], $5::text[])"
    untouched = await c.fetch(look)

    for token, run_count in ((7, 1), (8, 2)):
        other = [{**row, "run_count": run_count}]
        assert await s.beat(c, token, other, ['{"pct": 9}']) == {row["id"]: "lost"}
        assert await s.start(c, token, other) == {row["id"]: "lost"}
        assert await c.fetchval(save, token, row["id"], run_count) is False
        assert (await s.settle(c, token, other, "retry"))[row["id"]] != "accepted"
        assert await c.fetch(look) == untouched

        told = await c.fetch(both, [7, token], [row["id"]] * 2, [2, run_count], [False, True], [None, '{"pct": 9}'])
        assert [one["answer"] for one in told] == ["ok", "lost"]
        (after,) = await c.fetch(look)
        assert (after["progress"], after["started_at"]) == (None, None)
        untouched = await c.fetch(look)


async def a_job_keeps_its_key_until_it_ends(s: Store, c: Conn) -> None:
    """Q4: a retry, a pause, a hand-back and a lost lease keep it; the end gives it back."""
    await s.enq(c, ["j"], keys=["K"])
    for act in ("retry", "snooze", "release"):
        await s.settle(c, 1, await s.claim(c, 1), act)
        assert await s.enq(c, ["other"], keys=["K"]) == ["skipped"], act
    await s.claim(c, 1)
    await s.stale(c)
    assert await s.rescue(c) == 1
    assert await s.enq(c, ["other"], keys=["K"]) == ["skipped"]
    await s.settle(c, 1, await s.claim(c, 1))
    assert await s.enq(c, ["other"], keys=["K"]) == ["created"]


async def a_slot_comes_back_once_and_by_who_had_it(s: Store, c: Conn) -> None:
    """C7: with the outcome that is accepted; not by a late one, nor twice."""
    await c.execute("select fencepost.gate_limit_v1('G', 3)")
    await s.enq(c, [f"j{i}" for i in range(6)], ckeys=["G"] * 6)
    rows = await s.claim(c, 1)
    assert len(rows) == 3

    assert set((await s.settle(c, 2, rows)).values()) == {"lost"}
    assert await s.claim(c, 1) == []
    assert await s.fsck(c) == []

    assert set((await s.settle(c, 1, rows[:1])).values()) == {"accepted"}
    assert set((await s.settle(c, 1, rows[:1])).values()) == {"already"}
    assert len(await s.claim(c, 1)) == 1
    assert await s.fsck(c) == []


async def a_gate_that_says_something_is_not_swept(s: Store, c: Conn) -> None:
    """C7: one that counts and one with a limit of its own; the rest is forgotten."""
    await c.execute("select fencepost.gate_limit_v1('raised', 3), fencepost.gate_limit_v1('plain', 1)")
    await s.enq(c, ["one"], ckeys=["used"])
    assert len(await s.claim(c, 1)) == 1

    assert await c.fetchval("select fencepost.gate_sweep_v1(10)") == 1
    assert [row["ckey"] for row in await c.fetch("select ckey from fencepost.gate order by ckey")] == ["raised", "used"]
    assert await s.fsck(c) == []
