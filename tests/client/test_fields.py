"""What a caller may ask for with one job, or declare for all of a task, read back from the database (SPEC Q6, Q7)."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from client.shop import Shop
from fencepost import RetryPolicy

NOON = datetime(2999, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def column(shop: Shop, name: str, **options: Any) -> Any:
    """What lies in one column of ``fencepost.job`` after an enqueue with these options."""
    answer = shop.receipt.using(**options).enqueue(7)
    return shop.one(f"select {name} from fencepost.job where job_id = %s", answer.job_id)


STORED: dict[str, tuple[dict[str, Any], str, Any]] = {
    "job_id": ({"job_id": "receipt:7"}, "job_id", "receipt:7"),
    "run_at": ({"run_at": NOON}, "run_at", NOON),
    "run_at elsewhere": ({"run_at": NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))}, "run_at", NOON),
    "priority": ({"priority": -32_000}, "priority", -32_000),
    "queue": ({"queue": "mail"}, "queue", "mail"),
    "unique_key": ({"unique_key": "order:7"}, "unique_key", "order:7"),
    "concurrency_key": ({"concurrency_key": "acme"}, "ckey", "acme"),
    "tenant": ({"tenant": "acme"}, "tenant", "acme"),
    "start_by": ({"start_by": NOON}, "start_by", NOON),
    "finish_by": ({"finish_by": NOON}, "finish_by", NOON),
    "max_attempts": ({"max_attempts": 2}, "max_attempts", 2),
    "dedup_window": ({"dedup_window": "1h30m"}, "dedup_s", 5400.0),
    "tags": ({"tags": ["b", "a, c", "b"]}, "tags", ["b", "a, c"]),
    "meta": ({"meta": {"trace": "00-ab", "n": [1, None]}}, "meta", {"trace": "00-ab", "n": [1, None]}),
}


@pytest.mark.spec("Q6")
@pytest.mark.parametrize(("options", "name", "value"), STORED.values(), ids=STORED)
def test_an_option_of_the_call_is_a_column_of_the_job(
    shop: Shop, options: dict[str, Any], name: str, value: Any
) -> None:
    assert column(shop, name, **options) == value


@pytest.mark.spec("Q6")
@pytest.mark.parametrize("delay", [90, 90.0, "90s", "1m30s", timedelta(seconds=90)])
def test_a_delay_counts_from_the_call_by_the_databases_clock(shop: Shop, delay: Any) -> None:
    """TMZ-2."""
    assert column(shop, "run_at - created_at between '89 s' and '91 s'", delay=delay)
    assert shop.ask("select state, label from fencepost.jobs") == [("queued", "scheduled")]


@pytest.mark.spec("Q6")
def test_a_time_that_has_passed_is_due_at_once(shop: Shop) -> None:
    shop.receipt.using(job_id="late", run_at=datetime(1970, 1, 1, tzinfo=UTC)).enqueue(7)

    assert shop.ask("select label from fencepost.jobs") == [("queued",)]
    assert shop.claimed().job_id == "late"


@pytest.mark.spec("Q6")
def test_all_options_together_are_read_back_as_one_job(shop: Shop) -> None:
    later = NOON + timedelta(days=1)
    shop.report.using(
        job_id="all", run_at=NOON, priority=9, queue="night", unique_key="u", concurrency_key="c", tenant="acme",
        start_by=NOON, finish_by=later, max_attempts=3, dedup_window=60, tags=("x",), meta={"a": 1},
    ).enqueue("daily", at=NOON)  # fmt: skip

    job = shop.app.client.job("all")

    assert job is not None
    assert (job.task, job.version, job.queue, job.priority, job.state) == ("report.render", 3, "night", 9, "queued")
    assert (job.run_at, job.start_by, job.finish_by) == (NOON, NOON, later)
    assert (job.unique_key, job.concurrency_key, job.tenant) == ("u", "c", "acme")
    assert (job.tags, job.meta) == (("x",), {"a": 1})
    assert job.payload == {"name": "daily", "at": "2999-01-01T12:00:00.123456Z"}
    assert [row.job_id for row in shop.app.client.list_jobs(tag="x")] == ["all"]


@pytest.mark.spec("Q6")
def test_what_the_call_leaves_open_the_task_says(shop: Shop) -> None:
    """The declaration counts although no worker has published it yet."""
    shop.report.using(job_id="default").enqueue("daily")
    shop.report.using(job_id="own", queue="night", priority=0).enqueue("daily")
    shop.report.using(job_id="none", queue=None, priority=None).enqueue("daily")
    shop.receipt.using(job_id="plain").enqueue(7)

    assert shop.ask("select job_id, queue, priority, version from fencepost.job order by id") == [
        ("default", "reports", 7, 3),
        ("own", "night", 0, 3),
        ("none", "reports", 7, 3),
        ("plain", "default", 0, 1),
    ]
    assert shop.one("select count(*) from fencepost.task") == 0


@pytest.mark.spec("Q6", "R2")
def test_a_tasks_attempts_are_stored_with_the_job(shop: Shop) -> None:
    @shop.app.task("pay", retry=RetryPolicy(max_attempts=2))
    def pay(order_id: int) -> None: ...

    pay.using(job_id="two").enqueue(7)
    pay.using(job_id="nine", max_attempts=9).enqueue(7)

    assert shop.ask("select job_id, max_attempts from fencepost.job order by id") == [("two", 2), ("nine", 9)]


@pytest.mark.spec("Q7")
def test_arguments_are_plain_json_that_sql_can_read(shop: Shop) -> None:
    @shop.app.task("typed")
    def typed(who: uuid.UUID, on: date, price: Decimal, big: int, parts: set[str], raw: bytes) -> None: ...

    who = uuid.UUID(int=7)
    typed.using(job_id="a").enqueue(who, date(2999, 1, 2), Decimal("9.90"), 10**40, {"x"}, b"\x00\xff")

    assert shop.ask(
        "select (payload->>'who')::uuid, (payload->>'on')::date, (payload->>'price')::numeric, "
        "(payload->>'big')::numeric, payload->'parts', decode(payload->>'raw', 'base64') from fencepost.job"
    ) == [(who, date(2999, 1, 2), Decimal("9.90"), Decimal(10**40), ["x"], b"\x00\xff")]
    assert typed.contract.decode(shop.claimed().payload)["price"] == Decimal("9.90")


@pytest.mark.spec("Q7")
def test_a_reference_leaves_defaults_to_the_run_and_a_snapshot_stores_them(shop: Shop) -> None:
    shop.receipt.using(job_id="reference").enqueue(7)
    shop.report.using(job_id="snapshot").enqueue("daily")

    assert shop.payload("reference") == {"order_id": 7}
    assert shop.payload("snapshot") == {"name": "daily", "at": None}


@pytest.mark.spec("Q7")
def test_the_largest_payload_that_is_allowed_is_stored(shop: Shop) -> None:
    """NTF-1: far above what NOTIFY could carry."""
    room = 256 * 1024 - len('{"name":""}') - len(',"at":null')

    shop.report.using(job_id="large").enqueue("\u00e9" * (room // 2))

    assert len(shop.payload("large")["name"]) == room // 2
    assert shop.is_consistent()
