"""``fencepost.enqueue`` from plain SQL: any language, the same job, the same answers (SPEC Q10)."""

from __future__ import annotations

import unicodedata
from typing import Any

import psycopg
import pytest

from client.shop import Shop, race
from fencepost import Answer
from fencepost.store import workers
from fencepost.store.views import TaskRow
from store.hands import SQL, wire_driver

CALL = "select answer, job_id, id, holder, differs from fencepost.enqueue"


def publish(shop: Shop, *tasks: TaskRow) -> None:
    """As a worker does at its start."""
    wire = wire_driver(shop.dsn)
    try:
        wire.run(workers.publish_tasks(SQL, tasks))
    finally:
        wire.close()


@pytest.mark.spec("Q10")
def test_a_job_from_sql_is_the_job_that_python_would_have_made(shop: Shop) -> None:
    ((answer, job_id, id_, holder, differs),) = shop.ask(
        f"{CALL}('receipt.send', '{{\"order_id\": 7}}', 'receipt:7', p_unique_key => 'order:7')"
    )

    again = shop.receipt.using(job_id="receipt:7", unique_key="order:7").enqueue(order_id=7)

    assert (answer, job_id, holder, differs) == ("created", "receipt:7", None, False)
    assert (again.status, again.id, again.differs) == (Answer.EXISTS, id_, False)
    assert shop.count() == 1


@pytest.mark.spec("Q10", "Q11", "Q3", "Q4", "L7")
def test_the_answers_are_the_same_words(shop: Shop) -> None:
    for job_id, act in (("done", "succeed"), ("failed", "fail"), ("doubt", "doubt")):
        shop.receipt.using(job_id=job_id).enqueue(1)
        shop.end(job_id, act)
    shop.receipt.using(job_id="known", unique_key="k").enqueue(1)

    def told(job_id: str | None, key: str | None = None, order: int = 1) -> tuple[Any, ...]:
        (row,) = shop.ask(
            f"{CALL}('receipt.send', jsonb_build_object('order_id', %s::int), %s, p_unique_key => %s)",
            order, job_id, key,
        )  # fmt: skip
        return row[0], row[1], row[3], row[4]

    assert told("known", "k") == ("exists", "known", None, False)
    assert told("known", "k", order=2) == ("exists", "known", None, True)
    assert told("done") == ("deduplicated", "done", None, False)
    assert told("failed") == ("resubmitted", "failed", None, False)
    assert told("doubt") == ("in_doubt", "doubt", None, False)
    assert told("other", "k") == ("skipped", "other", "known", False)
    assert told("new")[0] == "created"
    assert shop.is_consistent()


@pytest.mark.spec("Q10", "Q1")
def test_it_is_part_of_the_callers_transaction(shop: Shop) -> None:
    with shop.tx() as conn:
        conn.execute(f"{CALL}('receipt.send', p_job_id => 'gone')")
        conn.rollback()
        conn.execute("create table orders (id int)")
        conn.execute(f"{CALL}('receipt.send', p_job_id => 'kept')")

    assert shop.job_ids() == ["kept"]


@pytest.mark.spec("Q10")
def test_a_trigger_of_ones_own_may_enqueue_and_a_failed_statement_takes_the_jobs_with_it(shop: Shop) -> None:
    shop.ask("create table orders (id int primary key check (id < 3))")
    shop.ask(
        "create function on_order() returns trigger language plpgsql as $$ begin "
        "perform fencepost.enqueue('receipt.send', jsonb_build_object('order_id', new.id), 'receipt:' || new.id); "
        "return new; end $$"
    )
    shop.ask("create trigger enqueues after insert on orders for each row execute function on_order()")

    shop.ask("insert into orders values (1), (2)")
    with pytest.raises(psycopg.errors.CheckViolation):
        shop.ask("insert into orders values (0), (3)")

    assert shop.job_ids() == ["receipt:1", "receipt:2"]
    assert shop.payload("receipt:2") == {"order_id": 2}


@pytest.mark.spec("Q10")
def test_defaults_come_from_the_table_that_workers_publish(shop: Shop) -> None:
    columns = "select queue, priority, version, dedup_s from fencepost.job where job_id = %s"
    publish(shop, TaskRow(name="report.render", version=3, queue="reports", priority=7, dedup_s=0))

    shop.ask(f"{CALL}('report.render', p_job_id => 'known')")
    shop.ask(f"{CALL}('report.render', p_job_id => 'own', p_queue => 'night', p_priority => -1)")
    shop.ask(f"{CALL}('nobody.knows', p_job_id => 'unknown')")
    by_python = shop.report.using(job_id="python").enqueue("daily")

    assert shop.ask(columns, "known") == [("reports", 7, 3, None)]
    assert shop.ask(columns, "own") == [("night", -1, 3, None)]
    assert shop.ask(columns, "unknown") == [("default", 0, 1, None)]
    assert by_python.is_new
    assert shop.ask(columns, "python") == shop.ask(columns, "known")


@pytest.mark.spec("Q10", "Q3")
def test_the_published_window_holds_for_sql_too(shop: Shop) -> None:
    publish(shop, TaskRow(name="receipt.send", dedup_s=0))
    shop.ask(f"{CALL}('receipt.send', p_job_id => 'a')")
    shop.end("a", "succeed")

    assert shop.ask(f"{CALL}('receipt.send', p_job_id => 'a')")[0][0] == "resubmitted"


@pytest.mark.spec("Q10", "Q6")
def test_every_option_is_stored_as_given(shop: Shop) -> None:
    shop.ask(
        f"{CALL}('t', '{{\"n\": 123456789012345678901234567890}}', 'all', 'mail', 5, '2999-01-01 12:00+02', "
        "p_unique_key => 'u', p_concurrency_key => 'c', p_tenant => 'acme', p_start_by => '2999-01-02 00:00+00', "
        "p_finish_by => '2999-01-03 00:00+00', p_max_attempts => 2, p_dedup_s => 1.5, p_tags => '{a,\"b,c\"}', "
        "p_meta => '{\"trace\": null}', p_notify => false)"
    )

    job = shop.app.client.job("all")

    assert job is not None
    assert (job.task, job.queue, job.priority, job.state, job.label) == ("t", "mail", 5, "queued", "scheduled")
    assert job.payload == {"n": 123456789012345678901234567890}
    assert job.run_at.isoformat() == "2999-01-01T10:00:00+00:00"
    assert (job.unique_key, job.concurrency_key, job.tenant) == ("u", "c", "acme")
    assert job.start_by is not None
    assert job.finish_by is not None
    assert (job.start_by.day, job.finish_by.day) == (2, 3)
    assert (job.tags, job.meta) == (("a", "b,c"), {"trace": None})
    assert shop.ask("select max_attempts, dedup_s from fencepost.job") == [(2, 1.5)]


@pytest.mark.spec("Q10", "Q3", "Q11")
def test_sql_and_python_race_for_one_key(shop: Shop) -> None:
    def caller(n: int) -> tuple[str, str | None]:
        with shop.tx() as conn:
            if n % 2:
                answer = shop.receipt.using(tx=conn, job_id=f"j{n}", unique_key="k").enqueue(1)
                return answer.status.value, answer.holder
            row = conn.execute(f"{CALL}('receipt.send', '{{\"order_id\": 1}}', %s, p_unique_key => 'k')", (f"j{n}",))
            answer_row = row.fetchone()
            assert answer_row is not None
            return answer_row[0], answer_row[3]

    answers = race(16, caller)

    (winner,) = shop.job_ids()
    assert sorted(answers, key=str) == sorted([("created", None), *[("skipped", winner)] * 15], key=str)


BAD: dict[str, tuple[str, str]] = {
    "no task": ("p_task => null", "p_task must name a task"),
    "empty task": ("p_task => ''", "p_task must have 1 to 128 printable characters"),
    "long task": ("p_task => repeat('t', 129)", "p_task must have 1 to 128"),
    "task with a line end": ("p_task => E'a\\nb'", "p_task must have .* printable"),
    "task with blanks": ("p_task => ' t'", "p_task must have .* without white space at its ends"),
    "payload null": ("p_payload => null", "p_payload must be a JSON object"),
    "payload list": ("p_payload => '[1]'", "p_payload must be a JSON object"),
    "task with a blank that is no space": ("p_task => E'a\\u00a0b'", "p_task must have .* printable"),
    "queue that reads backwards": ("p_queue => E'a\\u202eb'", "p_queue must have .* printable"),
    "job_id that cannot be seen": ("p_job_id => E'\\u200b'", "p_job_id must have .* printable"),
    "tag that cannot be seen": ("p_tags => array[E'a\\ufeff']", "p_tags must be"),
    "payload with a huge number": (
        "p_payload => '{\"a\": [1e5000]}'",
        "p_payload must not .* numbers of more than 4300",
    ),
    "payload with a low number": ("p_payload => '{\"a\": -1e4300}'", "p_payload must not .* numbers of more than 4300"),
    "payload too deep": (f"p_payload => '{{\"a\": {'[' * 100}{']' * 100}}}'", "p_payload must not be nested deeper"),
    "payload far too deep": (f"p_payload => '{{\"a\": {'[' * 2000}{']' * 2000}}}'", "p_payload must not be nested"),
    "meta with a huge number": ("p_meta => '{\"a\": 1e5000}'", "p_meta must not .* numbers of more than 4300"),
    "meta too deep": (f"p_meta => '{{\"a\": {'[' * 100}{']' * 100}}}'", "p_meta must not be nested deeper"),
    "payload large": ("p_payload => jsonb_build_object('a', repeat('x', 262144))", "p_payload .* at most 256 KiB"),
    "job_id empty": ("p_job_id => ''", "p_job_id must have 1 to 512"),
    "job_id long": ("p_job_id => repeat('x', 513)", "p_job_id must have 1 to 512"),
    "queue blank": ("p_queue => ' '", "p_queue must have 1 to 128"),
    "queue long": ("p_queue => repeat('q', 129)", "p_queue must have 1 to 128"),
    "unique_key empty": ("p_unique_key => ''", "p_unique_key must have"),
    "concurrency_key long": ("p_concurrency_key => repeat('x', 3000)", "p_concurrency_key must have"),
    "tenant empty": ("p_tenant => ''", "p_tenant must have"),
    "tenant huge": ("p_tenant => repeat('x', 1000000)", "p_tenant must have"),
    "tag null": ("p_tags => array[null]::text[]", "p_tags must be at most 20 words"),
    "tag empty": ("p_tags => '{a,\"\"}'", "p_tags must be"),
    "tag long": ("p_tags => array[repeat('x', 101)]", "p_tags must be .* 1 to 100"),
    "many tags": ("p_tags => array_fill('x'::text, '{21}')", "p_tags must be at most 20"),
    "tags of tags": ("p_tags => '{{a,b},{c,d}}'", "p_tags must be"),
    "meta list": ("p_meta => '[1]'", "p_meta must be a JSON object"),
    "meta large": ("p_meta => jsonb_build_object('a', repeat('x', 8192))", "p_meta must be .* 8 KiB"),
    "run_at endless": ("p_run_at => 'infinity'", "p_run_at must lie between the years 1970 and 9999"),
    "run_at before all time": ("p_run_at => '-infinity'", "p_run_at must lie"),
    "run_at before Christ": ("p_run_at => '0044-03-15 BC'", "p_run_at must lie"),
    "run_at too far": ("p_run_at => '20000-01-01'", "p_run_at must lie"),
    "start_by too far": ("p_start_by => '20000-01-01'", "p_start_by must lie"),
    "finish_by too far": ("p_finish_by => '10000-01-01 00:00+00'", "p_finish_by must lie"),
    "both times": ("p_run_at => now(), p_delay_s => 1", "give p_run_at or p_delay_s, not both"),
    "finish before run": ("p_run_at => '2999-01-02', p_finish_by => '2999-01-01'", "p_finish_by must be later"),
    "finish before start": ("p_start_by => '2999-01-02', p_finish_by => '2999-01-01'", "p_finish_by must be later"),
    "start before run": ("p_run_at => '2999-01-02', p_start_by => '2999-01-01'", "p_start_by must not be earlier"),
    "delay negative": ("p_delay_s => -1", "p_delay_s must be 0 to"),
    "delay NaN": ("p_delay_s => 'nan'", "p_delay_s must be 0 to"),
    "delay endless": ("p_delay_s => 'infinity'", "p_delay_s must be 0 to"),
    "window negative": ("p_dedup_s => -1", "p_dedup_s must be 0 to"),
    "priority": ("p_priority => 32001", "p_priority must be -32000 to 32000"),
    "attempts": ("p_max_attempts => 0", "p_max_attempts must be 1 to 32000"),
}


@pytest.mark.spec("Q10", "C12")
@pytest.mark.parametrize(("argument", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_with_the_name_of_the_argument(shop: Shop, argument: str, said: str) -> None:
    """Before anything is done; and what no Python program could read back never becomes a row."""
    task = "" if argument.startswith("p_task") else "'t', "

    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^fencepost.enqueue: .*{said}"):
        shop.ask(f"{CALL}({task}{argument})")

    assert shop.count() == 0
    assert shop.one("select count(*) from fencepost.held") == 0


@pytest.mark.spec("Q10")
@pytest.mark.parametrize(
    "argument",
    [
        "p_payload => jsonb_build_object('a', repeat('x', 262144 - 9))",
        "p_job_id => repeat('\u00e9', 512)",
        "p_tags => array_fill(repeat('x', 100), '{20}')",
        "p_meta => 'null'",
        "p_run_at => '1970-01-01 00:00+00'",
        "p_run_at => '9999-12-31 23:59:59+00'",
        "p_priority => -32000, p_max_attempts => 32000, p_delay_s => 315360000, p_dedup_s => 0",
        "p_queue => 'h\u00e9 llo'",
        "p_queue => '\u5317\u4eac \U0001f680\ufe0f \U000e0100x'",
        f"p_payload => '{{\"a\": {'[' * 99}{']' * 99}}}'",
        "p_payload => jsonb_build_object('a', 1e4299, 'b', -1e4299, 'c', repeat('9', 5000))",
    ],
)
def test_what_is_just_allowed_is_stored_and_can_be_read(shop: Shop, argument: str) -> None:
    ((answer, job_id, *_),) = shop.ask(f"{CALL}('t', {argument})")

    assert answer == "created"
    assert shop.app.client.job(job_id) is not None
    assert [row.job_id for row in shop.app.client.list_jobs()] == [job_id]


@pytest.mark.spec("Q10")
def test_a_name_that_no_python_program_could_write_is_no_name_in_sql(shop: Shop) -> None:
    """Character by character at the edges of what can be printed; Unicode's own additions since are left out."""
    kinds = [unicodedata.category(chr(n)) for n in range(0x110000)]
    edges = [
        n for n in range(1, 0x110000) if kinds[n] not in ("Cs", "Cn") and kinds[n] != kinds[n - 1] or n == 0x10FFFD
    ]
    edges += [n - 1 for n in edges if n > 1 and kinds[n - 1] not in ("Cs", "Cn")]

    shop.ask(
        "create function refused(n int) returns boolean language plpgsql as $$ begin "
        "perform fencepost.enqueue('t', p_queue => 'a' || chr(n) || 'b'); return false; "
        "exception when invalid_parameter_value then return true; end $$"
    )
    told = shop.ask("select n, refused(n) from unnest(%s::int[]) n", edges)

    assert len(edges) > 1000
    assert [n for n, refused in told if refused is chr(n).isprintable()] == []
