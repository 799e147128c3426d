"""What the tables and their functions owe to the failures of others (catalogue DBL, ZMB, HBT, NTF, MIG, PLN)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.domain.job import Fence
from fencepost.domain.outcome import Settlement
from fencepost.store import jobs
from fencepost.store.wire import Wire
from servers import Database

TOKEN = 77
PLACES = ("ready", "delayed", "parked", "running", "outcome", "attempt", "carry")


@pytest.fixture
def wire(database: Database) -> Iterator[Wire]:
    with Wire(database.dsn, deadline=20, name="test") as made:
        yield made


def put(database: Database, count: int) -> None:
    with database.connect() as conn:
        conn.execute(
            "SELECT count(*) FROM generate_series(1, %s) AS i, LATERAL fencepost.enqueue('t', '{}'::jsonb, 'j' || i)",
            [count],
        )


def claim(database: Database, wire: Wire, count: int) -> list[Fence]:
    found = wire.run(jobs.claim(database.catalog, TOKEN, {"default": count}, max_bytes=1 << 24, ttl_s=30))
    return [Fence(job.id, job.run_count, TOKEN) for job in found.jobs]


@pytest.mark.spec("C1")
@pytest.mark.parametrize("count", [1, 10])
def test_a_claim_locks_what_it_takes_and_nothing_else(database: Database, count: int) -> None:
    """DBL-7: while it is open, all other rows can be locked; after its rollback all can."""
    put(database, 200)
    lockable = "SELECT count(*) FROM (SELECT FROM fencepost.ready FOR UPDATE SKIP LOCKED) AS free"
    with database.connect() as first, database.connect() as second:
        with first.transaction(force_rollback=True):
            rows = first.execute(
                "SELECT id FROM fencepost.claim_v1(1, ARRAY['default'], ARRAY[%s])", [count]
            ).fetchall()
            assert len(rows) == count
            assert second.execute(lockable).fetchone() == (200 - count,)

        assert second.execute(lockable).fetchone() == (200,)


@pytest.mark.spec("C3")
def test_the_last_words_of_a_deleted_run_make_no_row(database: Database, wire: Wire) -> None:
    """ZMB-2: beat with progress, checkpoint and outcome arrive after the row was taken away."""
    put(database, 1)
    (fence,) = claim(database, wire, 1)
    with database.connect() as conn:
        conn.execute("DELETE FROM fencepost.running")
        conn.execute("DELETE FROM fencepost.job")

        assert wire.run(jobs.beat(database.catalog, [fence], progress=['{"done": 1}'])) == {fence: "lost"}
        assert wire.run(jobs.checkpoint(database.catalog, fence, '{"page": 1}')) is False
        (settled,) = wire.run(jobs.settle(database.catalog, [(fence, Settlement(act="succeed"))])).values()

        assert settled.answer == "lost"
        counts: dict[str, Any] = {
            place: conn.execute(f"SELECT count(*) FROM fencepost.{place}").fetchone() for place in PLACES
        }
        assert counts == dict.fromkeys(PLACES, (0,))


@pytest.mark.spec("C4", "C10")
def test_a_lease_counts_from_its_claim(database: Database, wire: Wire) -> None:
    """HBT-4: before the first beat it is as fresh as the claim, by the database's clock."""
    put(database, 1)
    claim(database, wire, 1)

    with database.connect() as conn:
        row = conn.execute(
            "SELECT clock_timestamp() - heartbeat_at < interval '10 s', label FROM fencepost.jobs"
        ).fetchone()
    assert row == (True, "running")


@pytest.mark.spec("Q7")
def test_a_notification_says_nothing_however_large_the_batch(database: Database) -> None:
    """NTF-2: one without a payload for 5,000 jobs, and one for 100 retries by hand."""
    with database.connect() as listener, database.connect() as conn:
        listener.execute("LISTEN fencepost")
        put(database, 5000)
        heard = list(listener.notifies(timeout=5, stop_after=1))
        conn.execute("SELECT count(fencepost.cancel_v1(job_id, 'somebody')) FROM fencepost.job WHERE id <= 100")
        conn.execute("SELECT count(fencepost.resubmit_v1(job_id, 'somebody')) FROM fencepost.job WHERE id <= 100")
        heard += list(listener.notifies(timeout=5, stop_after=1))

    assert [one.payload for one in heard] == ["", ""]


def test_ids_are_wide_and_no_key_points_into_history(database: Database) -> None:
    """PLN-6, PLN-7, MIG-3: every id, token and sequence is a bigint; there is no foreign key at all."""
    with database.connect() as conn:
        narrow = conn.execute(
            "SELECT attrelid::regclass::text, attname FROM pg_attribute"
            " WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'fencepost'::regnamespace AND relkind = 'r')"
            " AND attname IN ('id', 'n', 'token', 'epoch') AND atttypid <> 'bigint'::regtype"
        ).fetchall()
        sequences = conn.execute(
            "SELECT count(*), count(*) FILTER (WHERE data_type <> 'bigint'::regtype) FROM pg_sequences"
            " WHERE schemaname = 'fencepost'"
        ).fetchone()
        keys = conn.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fencepost'::regnamespace"
        ).fetchall()

    assert narrow == []
    assert sequences is not None
    assert sequences[0] > 0
    assert sequences[1] == 0
    assert keys == []
