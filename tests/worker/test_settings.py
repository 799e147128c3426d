"""A worker's options: the defaults of the contract, and one sentence for each that cannot work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fencepost.domain.limits import NAME_CHARS
from fencepost.errors import UsageError
from fencepost.worker.settings import WorkerSettings


@pytest.mark.spec("W1")
def test_the_defaults_are_the_contracts() -> None:
    made = WorkerSettings.create()

    assert dict(made.queues) == {"default": 1}
    assert (made.heartbeat_interval, made.heartbeat_ttl, made.poll_interval, made.shutdown_timeout) == (5, 30, 1, 10)
    assert (made.processes, made.on_outage, made.notify, made.fair) == (1, "exit", True, False)


@pytest.mark.parametrize(
    ("given", "queues"),
    [
        ({"queues": ["mail", "reports"], "slots": 4}, {"mail": 4, "reports": 4}),
        ({"queues": {"mail": 8, "reports": 2}}, {"mail": 8, "reports": 2}),
        ({"queues": "mail", "slots": 3}, {"mail": 3}),
        ({"slots": 2}, {"default": 2}),
    ],
)
def test_queues_with_slots(given: dict[str, Any], queues: dict[str, int]) -> None:
    made = WorkerSettings.create(**given)

    assert dict(made.queues) == queues
    assert made.slots == sum(queues.values())
    assert made.entries >= 2 * made.slots


def test_durations_as_people_write_them() -> None:
    made = WorkerSettings.create(heartbeat_interval="500ms", heartbeat_ttl=timedelta(seconds=3), shutdown_timeout="2m")

    assert (made.heartbeat_interval, made.heartbeat_ttl, made.shutdown_timeout) == (0.5, 3.0, 120.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"heartbeat_ttl": 10}, r"heartbeat_ttl \(10 s\) must be more than twice heartbeat_interval \(5 s\).*raise"),
        ({"heartbeat_interval": 15}, "heartbeat_ttl .* must be more than twice heartbeat_interval"),
        ({"heartbeat_interval": 0}, "heartbeat_interval must be between 0.05 and 3600 seconds, not 0"),
        ({"heartbeat_interval": -1}, "heartbeat_interval: a duration must be between 0 and ten years"),
        ({"heartbeat_ttl": "soon"}, "heartbeat_ttl: .*"),
        ({"heartbeat_ttl": float("nan")}, "heartbeat_ttl: .*"),
        ({"poll_interval": 0}, "poll_interval must be between"),
        ({"shutdown_timeout": 10**9}, "shutdown_timeout"),
        ({"slots": 0}, "slots must be a whole number between 1 and 4096, not 0"),
        ({"slots": True}, "slots must be a whole number"),
        ({"slots": "3"}, "slots must be a whole number"),
        ({"queues": []}, "queues is empty: name at least one"),
        ({"queues": {}}, "queues is empty"),
        ({"queues": ["a", "a"]}, "queues names a queue twice"),
        ({"queues": [""]}, "queues: a queue's name must be printable text"),
        ({"queues": ["a\nb"]}, "queues: a queue's name must be printable text"),
        ({"queues": ["x" * (NAME_CHARS + 1)]}, f"at most {NAME_CHARS} characters"),
        ({"queues": [3]}, "queues: a queue's name"),
        ({"queues": 3}, "queues must be names"),
        ({"queues": {"a": 0}}, "slots of queue 'a' must be a whole number"),
        ({"queues": {"a": 4000, "b": 4000}}, "8000 slots in one process are too many"),
        ({"processes": 0}, "processes must be a whole number between 1 and 256"),
        ({"on_outage": "die"}, "on_outage must be 'exit' or 'stay', not 'die'"),
        ({"notify": "yes"}, "notify must be True or False"),
        ({"fair": 1}, "fair must be True or False"),
        ({"concurrency": 3}, "a worker has no option 'concurrency'; it has slots, queues"),
    ],
)
def test_what_cannot_work_gets_one_sentence_that_names_the_field(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as refused:
        WorkerSettings.create(**given)

    assert "\n" not in str(refused.value)


def test_a_child_gets_the_same_settings() -> None:
    made = WorkerSettings.create(
        queues={"mail": 8}, heartbeat_interval=0.5, heartbeat_ttl=3, on_outage="stay", fair=True
    )

    assert WorkerSettings.from_json(made.to_json()) == made


@pytest.mark.spec("C5")
@pytest.mark.parametrize(("interval", "ttl"), [(5, 30), (0.5, 3), (0.05, 0.2), (3600, 80_000)])
def test_patience_is_at_most_a_beat_and_at_least_two_looks(interval: float, ttl: float) -> None:
    """A frozen child keeps its leases for patience and ttl; a debugger stops a process for a moment."""
    made = WorkerSettings.create(heartbeat_interval=interval, heartbeat_ttl=ttl)

    assert 2 * made.look <= made.patience <= made.heartbeat_interval
    assert made.call_deadline < made.heartbeat_ttl / 2
