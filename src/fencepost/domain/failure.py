"""What is known of an error: a stable code, a class, and a storable text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ErrorClass(StrEnum):
    """What to do about an error (SPEC R1)."""

    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    RATE_LIMITED = "rate_limited"
    SKIP = "skip"
    IN_DOUBT = "in_doubt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One classified error. ``text`` is redacted and storable; the traceback, if any, is its tail."""

    code: str
    kind: ErrorClass
    text: str
    retry_after_s: float | None = None
