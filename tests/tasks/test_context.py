"""The job's context: facts, steering, and what a run tells."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest

from fencepost.domain.control import Cancelled
from fencepost.errors import PayloadError, UsageError
from fencepost.tasks import stats
from fencepost.tasks.context import CURRENT_JOB, RunHandle, current_job
from tasks.runs import Handle, context


def test_the_test_double_is_a_run_handle() -> None:
    handle: RunHandle = Handle()

    assert handle.fence.token == 99


def test_facts_are_the_claimed_job() -> None:
    job = context(meta='{"by": "web"}', tags=("a",))

    assert (job.id, job.job_id, job.task, job.queue) == (7, "receipt:7", "receipt.send", "mail")
    assert (job.attempt, job.max_attempts, job.run_count, job.generation) == (1, 5, 2, 0)
    assert (job.tags, job.meta, job.fence.run_count) == (("a",), {"by": "web"}, 2)
    assert "receipt:7" in repr(job)


def test_a_limit_is_a_deadline_and_never_below_zero() -> None:
    free, limited, over = context(), context(limit_s=60), context(limit_s=-1)

    assert (free.deadline, free.remaining()) == (None, None)
    assert limited.deadline is not None
    assert 59 < (limited.deadline - datetime.now(UTC)).total_seconds() <= 60
    assert 59 < (limited.remaining() or 0) <= 60
    assert over.remaining() == 0


@pytest.mark.spec("E2")
def test_an_idempotency_key_is_the_same_in_every_attempt_and_differs_where_the_effect_does() -> None:
    first = context().idempotency_key()

    assert context(attempts=4, run_count=9, id=8).idempotency_key() == first
    assert context(generation=1).idempotency_key() != first
    assert context(job_id="receipt:8").idempotency_key() != first
    assert context(task="other").idempotency_key() != first


@pytest.mark.spec("E2")
def test_business_parts_name_the_fact_in_whatever_task() -> None:
    key = context().idempotency_key("order", 7, UUID(int=3), date(2026, 1, 1))

    assert (
        context(task="other", job_id="x", generation=3).idempotency_key("order", "7", UUID(int=3), date(2026, 1, 1))
        == key
    )
    assert context().idempotency_key("order7") != context().idempotency_key("order", 7)
    assert context().idempotency_key("a", "b") != context().idempotency_key("ab")
    assert key.startswith("fp_")
    assert len(key) == 35


def test_an_idempotency_key_is_written_in_stone() -> None:
    """A release that computed another key would repeat every effect that is in flight."""
    assert context().idempotency_key() == "fp_9ebbdf34350b1428eb567c402bab847b"
    assert context().idempotency_key("order", 7) == "fp_2a25f080470cceb6c8f81093a3240cbe"


@pytest.mark.parametrize("part", [1.5, None, True, b"x", object()])
def test_a_part_that_has_no_one_text_is_refused(part: Any) -> None:
    with pytest.raises(UsageError, match="idempotency_key takes"):
        context().idempotency_key(part)


@pytest.mark.spec("W8")
def test_check_raises_once_a_cancel_was_requested() -> None:
    handle = Handle()
    job = context(handle)
    job.check()

    handle.cancel = True

    assert job.cancelled
    with pytest.raises(Cancelled):
        job.check()


def test_stopping_is_the_workers_word() -> None:
    handle = Handle()
    job = context(handle)
    assert not job.stopping

    handle.stop = True

    assert job.stopping


# ---------------------------------------------------------------- steps and figures


@pytest.mark.spec("W10")
def test_steps_are_counted_timed_and_told_apart_by_their_end() -> None:
    job = context()
    for fails in (False, True, False):
        try:
            with job.step("render"):
                if fails:
                    raise ValueError
        except ValueError:
            pass
    job.stats["rows"] = 7
    job.stats.add("bytes", 2)
    job.stats.add("bytes", 3)

    told = json.loads(job.stats_json() or "")

    assert told["steps"]["render"]["count"] == 3
    assert (told["steps"]["render"]["ok"], told["steps"]["render"]["failed"]) == (2, 1)
    assert told["steps"]["render"]["seconds"] >= 0
    assert told["figures"] == {"rows": 7, "bytes": 5}


def test_nothing_noted_is_nothing_stored() -> None:
    job = context()
    assert job.stats_json() is None

    _ = job.stats

    assert job.stats_json() is None


def test_names_are_bounded_and_the_rest_is_counted_together() -> None:
    job = context()
    for n in range(stats.NAMES + 30):
        with job.step(f"s{n}"):
            job.stats[f"f{n}"] = n

    told = json.loads(job.stats_json() or "")

    assert len(told["steps"]) == stats.NAMES + 1
    assert told["steps"]["(others)"]["count"] == 30
    assert len(told["figures"]) == stats.NAMES + 1
    assert told["figures"]["(others)"] == 30


def test_figures_are_numbers_or_short_redacted_text() -> None:
    job = context(redact=lambda said: said.replace("hunter2", "***"))

    job.stats["note"] = "password hunter2 " + "x" * 1000

    kept = job.stats["note"]
    assert isinstance(kept, str)
    assert kept.startswith("password *** ")
    assert len(kept) <= stats.TEXT_CHARS
    for wrong in (object(), float("nan"), [1], 10**40):
        with pytest.raises(UsageError, match="stats\\['x'\\] must be"):
            job.stats["x"] = wrong  # type: ignore[assignment]
    with pytest.raises(UsageError, match="numbers only"):
        job.stats.add("note")


def test_threads_of_one_handler_may_count_together() -> None:
    job = context()

    def count() -> None:
        for _ in range(500):
            with job.step("s"):
                job.stats.add("n")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    told = json.loads(job.stats_json() or "")
    assert told["steps"]["s"]["count"] == told["figures"]["n"] == 2000


# ---------------------------------------------------------------- progress and checkpoints


@pytest.mark.spec("W9")
def test_progress_is_throttled_and_the_end_is_always_told() -> None:
    handle = Handle()
    job = context(handle)

    for n in range(1, 10_001):
        job.progress(n, 10_000)

    assert 2 <= len(handle.progress) < 100
    assert json.loads(handle.progress[-1]) == {"done": 10_000, "total": 10_000}


def test_progress_held_back_is_flushed_when_the_handler_ends() -> None:
    handle = Handle()
    job = context(handle, redact=lambda said: said.replace("hunter2", "***"))
    job.progress(1, 9)
    job.progress(2, 9, "hunter2\x00!")

    job.flush_progress()
    job.flush_progress()

    assert len(handle.progress) == 2
    last = json.loads(handle.progress[-1])
    assert (last["done"], last["total"]) == (2, 9)
    assert last["text"].startswith("***")
    assert "\x00" not in last["text"]


def test_progress_never_raises_for_what_it_is_given() -> None:
    job = context()

    job.progress(float("nan"))
    job.progress(object())  # type: ignore[arg-type]
    job.flush_progress()


@pytest.mark.spec("W9")
def test_a_checkpoint_is_handed_over_at_once_and_given_back() -> None:
    handle = Handle()
    job = context(handle, checkpoint='{"page": 3}')
    assert job.checkpoint == {"page": 3}

    job.save_checkpoint({"page": 4, "seen": (1, 2)})
    asyncio.run(job.asave_checkpoint({"page": 5}))

    assert [json.loads(text) for text in handle.checkpoints] == [{"page": 4, "seen": [1, 2]}, {"page": 5}]
    assert job.checkpoint == {"page": 5}


def test_a_checkpoint_that_cannot_be_stored_is_refused_and_the_old_one_stays() -> None:
    handle = Handle()
    job = context(handle, checkpoint="1")

    for wrong in (float("nan"), object(), "\x00", "x" * 300_000):
        with pytest.raises(PayloadError, match="checkpoint"):
            job.save_checkpoint(wrong)

    assert (handle.checkpoints, job.checkpoint) == ([], 1)


# ---------------------------------------------------------------- deep code


def test_deep_code_finds_the_same_object_and_threads_with_the_context_too() -> None:
    job = context()
    found: list[object] = []

    def run() -> None:
        CURRENT_JOB.set(job)
        found.append(current_job())
        copied = contextvars.copy_context()
        thread = threading.Thread(target=copied.run, args=(lambda: found.append(current_job()),))
        thread.start()
        thread.join()

    contextvars.copy_context().run(run)

    assert found == [job, job]
    with pytest.raises(UsageError, match="no job is running here"):
        current_job()


@pytest.mark.spec("O4")
def test_the_logger_names_the_run_and_keeps_the_calls_own_extra(caplog: pytest.LogCaptureFixture) -> None:
    job = context()

    with caplog.at_level(logging.INFO):
        job.logger.info("sent %s", "it", extra={"mail": 3})

    record: Any = caplog.records[-1]
    assert record.getMessage() == "sent it"
    assert (record.job_id, record.task, record.attempt, record.run, record.mail) == (
        "receipt:7",
        "receipt.send",
        1,
        2,
        3,
    )
