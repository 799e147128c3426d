"""Outcomes as JSON, for the way between a job process and its worker."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fencepost.domain.failure import ErrorClass, Failure
from fencepost.domain.outcome import Done, Doubtful, Lost, Outcome, Raised, Released, Skipped, Snoozed, Stopped, Unknown

_BY_NAME: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Done, Doubtful, Lost, Raised, Released, Skipped, Snoozed, Stopped, Unknown)
}


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Name and fields."""
    return {"kind": type(outcome).__name__, **asdict(outcome)}


def from_json(plain: dict[str, Any]) -> Outcome:
    """The outcome again."""
    fields = dict(plain)
    kind = _BY_NAME[fields.pop("kind")]
    if kind is Raised:
        failure = fields["failure"]
        fields["failure"] = Failure(**{**failure, "kind": ErrorClass(failure["kind"])})
    made: Outcome = kind(**fields)
    return made
