"""Every finding of the design review as a test on every server version, and mutants that prove that they can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from servers import Database
from sql import checks
from sql.hands import Conn, Store

Check = Callable[[Store, Conn], Awaitable[None]]


def perform(dsn: str, check: Check) -> None:
    """Run one check with connections of its own."""

    async def main() -> None:
        store = Store(dsn)
        try:
            await check(store, await store.conn())
        finally:
            await store.close()

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.spec(
    "C1",
    "C2",
    "C3",
    "C6",
    "C10",
    "C12",
    "L3",
    "L4",
    "L5",
    "L6",
    "L7",
    "Q3",
    "Q4",
    "Q6",
    "Q8",
    "Q11",
    "R5",
    "R6",
    "W8",
    "W11",
    "W12",
)
@pytest.mark.parametrize("check", [*checks.FINDINGS, *checks.RULES], ids=lambda check: check.__name__)
def test_the_storage(each_version: Database, check: Check) -> None:
    perform(each_version.dsn, check)


MUTANTS = [
    ("cancel flag dropped", "_settle", "WHEN f.cancel_at IS NOT NULL THEN 'cancelled'", "", checks.a10_a_cancel_request_survives_every_road_back),
    ("already = lost", "_settle", "THEN 'already' ELSE 'lost' END", "THEN 'lost' ELSE 'lost' END", checks.a11_a_lost_answer_is_told_from_a_lost_lease),
    ("beat waits", "heartbeat_v1", "FOR NO KEY UPDATE OF r SKIP LOCKED", "FOR NO KEY UPDATE OF r", checks.a01_an_open_transaction_of_a_caller_stops_neither_outcomes_nor_the_pulse),
    ("no token in settle", "_settle", "AND r.token = u.token", "", checks.a05_the_token_fences_where_the_run_count_repeats),
    ("no token in beat", "heartbeat_v1", "AND r.token = u.token", "", checks.a05_the_token_fences_where_the_run_count_repeats),
    ("claim waits for gates", "_sift", "ORDER BY g.ckey FOR UPDATE SKIP LOCKED", "ORDER BY g.ckey FOR UPDATE", checks.a12_a_completion_in_an_open_transaction_stops_no_claim),
    ("started at-most-once requeued", "_settle", "WHEN f.at_most_once AND f.act IN ('lost', 'timeout') THEN 'in_doubt'", "", checks.a15_a_dead_process_condemns_only_what_it_had_started),
    ("started body handed back", "_settle", "WHEN u.act IN ('release', 'park') AND r.started_at IS NOT NULL AND (r.at_most_once OR r.max_attempts = 1)", "WHEN false", checks.a_started_body_that_must_not_run_twice_is_not_handed_back),
    ("key not freed", "_settle", "DELETE FROM fencepost.held h WHERE h.id = ANY (v_keyed);", "NULL;", checks.a02_no_pair_of_operations_deadlocks),
    ("slot not given back", "_settle", "PERFORM fencepost._give_slots(v_ckeys);", "NULL;", checks.a13_a_key_shared_with_a_paused_queue_does_not_starve_the_other),
    ("rescue ignores the beat", "rescue_v1", "coalesce(r.heartbeat_at, r.claimed_at)", "r.claimed_at", checks.beat_keeps_a_lease_that_is_old_by_its_claim),
    ("purge forgets the window", "claim_v1", "greatest(coalesce(t.keep_ok_s, 1209600), coalesce(j.dedup_s, t.dedup_s, 86400))", "coalesce(t.keep_ok_s, 1209600)", checks.a18_retention_ends_no_window_and_no_doubt),
    ("order by id", "claim_v1", "ORDER BY m.priority DESC, m.run_at, m.id", "ORDER BY m.id", checks.order_is_priority_then_run_at_then_id),
    ("delay from the transaction's start", "_settle", "v_now timestamptz := clock_timestamp()", "v_now timestamptz := now()", checks.a17_delays_count_from_now_inside_a_long_transaction),
    ("crash blames all", "rescue_process_v1", "ELSE 'release' END AS act", "ELSE 'lost' END AS act", checks.a15_a_dead_process_condemns_only_what_it_had_started),
    ("no split of a bad batch", "settle_v1", "v_split := true;", "RAISE;", checks.a08_one_bad_row_stops_nothing_of_the_others),
]  # fmt: skip


@pytest.mark.spec("D4")
@pytest.mark.parametrize(("function", "right", "wrong", "check"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_broken_storage_is_noticed(database: Database, function: str, right: str, wrong: str, check: Check) -> None:
    text = next(file.text for file in database.catalog.functions() if file.name == function)
    assert right in text, "the mutant no longer fits the function: write it anew"
    with database.connect() as conn:
        conn.execute(text.replace(right, wrong).encode())
        conn.execute(next(f.text for f in database.catalog.functions() if f.name == "zz_settings").encode())

    with pytest.raises((AssertionError, TimeoutError, psycopg.Error)):
        perform(database.dsn, check)
