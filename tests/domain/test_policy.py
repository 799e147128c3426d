"""What a task says about its runs: the defaults of the contract, and one sentence that names a wrong field."""

from __future__ import annotations

import dataclasses
import math
from datetime import timedelta
from typing import Any

import pytest

from fencepost.domain.failure import FINAL_CODES
from fencepost.domain.policy import RetryPolicy, TaskPolicy, check_ttl
from fencepost.errors import UsageError

DAY = 86_400.0


@pytest.mark.spec("R2", "W7", "Q3", "L4", "R6")
def test_the_defaults_are_those_of_the_contract() -> None:
    task = TaskPolicy(name="mail.send")

    assert (task.queue, task.priority, task.version, task.data) == ("default", 0, 1, "reference")
    assert (task.max_attempts, task.max_crashes, task.on_lost, task.at_most_once) == (5, 3, "retry", False)
    assert (task.timeout_s, task.max_duration_s) == (None, DAY)
    assert (task.dedup_s, task.keep_succeeded_s, task.keep_failed_s) == (DAY, 14 * DAY, 90 * DAY)
    assert (task.ttl_s, task.lease_s, task.lease_ttl_s) == (None, None, None)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_attempts": 0}, "max_attempts must be between 1 and 32000, not 0"),
        ({"max_attempts": 32_001}, "max_attempts must be between"),
        ({"max_attempts": True}, "max_attempts must be a whole number, not True"),
        ({"max_attempts": 1.0}, "max_attempts must be a whole number"),
        ({"jitter": 1}, "jitter must be a share from 0 to below 1, not 1"),
        ({"jitter": -0.1}, "jitter must be a share"),
        ({"jitter": math.nan}, "jitter must be a share from 0 to below 1, not nan"),
        ({"jitter": True}, "jitter must be a share"),
        ({"jitter": "20%"}, "jitter must be a share"),
        ({"backoff": "soon"}, "backoff: a duration must be seconds or text such as"),
        ({"backoff": 0}, "backoff must be text such as"),
        ({"within": 0}, "within must be longer than 0 seconds"),
        ({"within": "ever"}, "within must be seconds or text such as"),
        ({"within": "11000d"}, "within must be between 0 and ten years"),
        ({"codes": ["X"]}, "codes must map at most 200 error codes to one of retry, fail, skip, in_doubt"),
        ({"codes": {str(n): "fail" for n in range(201)}}, "codes must map at most 200"),
        ({"codes": {"X": "pause"}}, "codes: the action for X must be one of retry, fail, skip, in_doubt, not 'pause'"),
        ({"codes": {"": "fail"}}, "codes: each code must not be empty"),
        ({"codes": {7: "fail"}}, "codes: each code must be text, not int"),
        ({"codes": {"x" * 65: "fail"}}, "codes: each code has 65 characters; 64 are allowed"),
        *(({"codes": {code: "retry"}}, f"codes: what becomes of {code} is fixed") for code in sorted(FINAL_CODES)),
    ],
)
def test_a_wrong_field_of_a_retry_policy_is_named(fields: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        RetryPolicy(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": ""}, "the task's name must not be empty"),
        ({"name": 7}, "the task's name must be text, not int"),
        ({"name": "x" * 129}, "the task's name has 129 characters; 128 are allowed"),
        ({"name": "a\0b"}, "the task's name holds a character that cannot be printed or stored"),
        ({"queue": " q"}, "task 'a': queue must not be empty or begin or end with white space"),
        ({"priority": 32_001}, "task 'a': priority must be between -32000 and 32000, not 32001"),
        ({"retry": 5}, "task 'a': retry must be a RetryPolicy, not int"),
        ({"timeout": 0}, "task 'a': timeout must be longer than 0 seconds"),
        ({"timeout": "2 minutes"}, "task 'a': timeout must be seconds or text such as '30s', '2m', '1h30m' or '1d'"),
        ({"timeout": "2d"}, "task 'a': timeout must not be longer than max_duration"),
        ({"max_duration": 0}, "task 'a': max_duration must be longer than 0 seconds"),
        ({"max_duration": None}, "task 'a': max_duration must be seconds, a timedelta or text"),
        ({"heartbeat_ttl": 0}, "task 'a': heartbeat_ttl must be longer than 0"),
        ({"lease": 60}, "task 'a': lease needs a timeout that is shorter than it"),
        ({"lease": 60, "timeout": 60}, "task 'a': lease needs a timeout that is shorter than it"),
        ({"lease": 60, "timeout": 30, "heartbeat_ttl": 9}, "task 'a': give lease or heartbeat_ttl, not both"),
        ({"executor": "greenlet"}, "task 'a': executor must be one of async, thread, process, not 'greenlet'"),
        ({"at_most_once": "no"}, "task 'a': at_most_once must be True or False, not 'no'"),
        ({"at_most_once": 0}, "task 'a': at_most_once must be True or False, not 0"),
        ({"on_lost": "requeue"}, "task 'a': on_lost must be one of retry, fail, in_doubt, not 'requeue'"),
        ({"max_crashes": 0}, "task 'a': max_crashes must be between 1"),
        ({"dedup_window": -1}, "task 'a': dedup_window must be between 0 and ten years, not -1"),
        ({"keep_succeeded": "for ever"}, "task 'a': keep_succeeded must be seconds"),
        ({"keep_failed": math.inf}, "task 'a': keep_failed must be between 0 and ten years, not inf"),
        ({"version": 0}, "task 'a': version must be between 1 and 1000000"),
        ({"data": "copy"}, "task 'a': data must be one of reference, snapshot"),
    ],
)
def test_a_wrong_field_of_a_task_is_named_with_the_task(fields: Any, said: str) -> None:
    """RTR-6: among them a retention that no interval can hold."""
    with pytest.raises(UsageError, match=f"^{said}"):
        TaskPolicy(**{"name": "a", **fields})


@pytest.mark.spec("C4")
def test_durations_may_be_written_in_every_form() -> None:
    task = TaskPolicy(name="a", lease="60s", timeout=timedelta(seconds=45), max_duration="1h", dedup_window=0)

    assert (task.lease_s, task.lease_ttl_s, task.timeout_s, task.max_duration_s, task.dedup_s) == (60, 60, 45, 3600, 0)
    assert TaskPolicy(name="a", heartbeat_ttl="2m").lease_ttl_s == 120


@pytest.mark.spec("W12", "W3")
def test_a_task_runs_once_if_it_says_so_or_has_one_attempt() -> None:
    assert TaskPolicy(name="a", at_most_once=True).runs_once
    assert TaskPolicy(name="a", retry=RetryPolicy(max_attempts=1)).runs_once
    assert not TaskPolicy(name="a").runs_once


def test_a_policy_does_not_change_once_it_is_declared() -> None:
    codes = {"X": "fail"}
    retry = RetryPolicy(codes=codes)
    task = TaskPolicy(name="a", retry=retry)
    codes["X"] = "retry"

    with pytest.raises(AttributeError, match="does not change once it is declared"):
        task.queue = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        retry.max_attempts = 9  # type: ignore[misc]
    with pytest.raises(TypeError):
        retry.codes["Y"] = "fail"  # type: ignore[index]
    assert dict(task.retry.codes) == {"X": "fail"}


@pytest.mark.spec("C4")
@pytest.mark.parametrize(("ttl", "interval", "fits"), [(30, 5, True), (10.1, 5, True), (10, 5, False), (1, 5, False)])
def test_a_lease_outlives_two_beats(ttl: float, interval: float, fits: bool) -> None:
    if fits:
        check_ttl("the worker's", ttl, interval)
        return

    with pytest.raises(
        UsageError, match=r"^the worker's heartbeat_ttl \(.* s\) must be longer than twice heartbeat_interval"
    ):
        check_ttl("the worker's", ttl, interval)
