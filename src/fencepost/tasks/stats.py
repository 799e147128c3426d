"""Step statistics of one run: what the outcome tells besides its state (SPEC W10)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from typing import Any, TypeGuard

from fencepost.domain.storable import text as storable_text
from fencepost.errors import UsageError

NAMES = 50
"""Distinct step names, and distinct figures, that are kept per run; what comes after is counted under ``(others)``."""

NAME_CHARS = 100
TEXT_CHARS = 200
OTHERS = "(others)"

Figure = int | float | str | bool | None


class _Step:
    __slots__ = ("count", "failed", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.seconds = 0.0


class Stats:
    """Figures and steps of one run. Bounded, thread-safe, and of no consequence for the outcome."""

    __slots__ = ("_figures", "_lock", "_redact", "_steps")

    def __init__(self, redact: Callable[[str], str] | None = None) -> None:
        self._redact = redact
        self._lock = threading.Lock()
        self._steps: dict[str, _Step] = {}
        self._figures: dict[str, Figure] = {}

    def __setitem__(self, name: str, value: Figure) -> None:
        """Keep a figure; the last value wins. Text is redacted and cut to 200 characters; other types: UsageError."""
        kept, figure = self._name(name), self._figure(name, value)
        with self._lock:
            self._put(kept, figure)

    def __getitem__(self, name: str) -> Figure:
        return self._figures[self._name(name)]

    def __contains__(self, name: str) -> bool:
        return self._name(name) in self._figures

    def add(self, name: str, amount: float = 1) -> None:
        """Add to a figure that starts at 0."""
        kept, step = self._name(name), self._figure(name, amount)
        with self._lock:
            before = self._figures.get(kept, 0)
            if not _is_number(before) or not _is_number(step):
                message = (
                    f"stats[{name!r}] holds {type(before).__name__}, to grow by {type(step).__name__}: numbers only"
                )
                raise UsageError(message)
            self._put(kept, self._figure(name, before + step))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count and time the block under ``name``."""
        began = time.monotonic()
        failed = True
        try:
            yield
            failed = False
        finally:
            self._note(name, time.monotonic() - began, failed=failed)

    def to_json(self) -> str | None:
        """The JSON text that is stored with the outcome; None if nothing was noted."""
        with self._lock:
            shown: dict[str, object] = {}
            if self._steps:
                shown["steps"] = {
                    name: {
                        "count": s.count,
                        "seconds": round(s.seconds, 6),
                        "ok": s.count - s.failed,
                        "failed": s.failed,
                    }
                    for name, s in self._steps.items()
                }
            if self._figures:
                shown["figures"] = dict(self._figures)
        return dumps(shown, allow_nan=False) if shown else None

    def _put(self, kept: str, figure: Figure) -> None:
        if kept in self._figures or len(self._figures) < NAMES:
            self._figures[kept] = figure
        else:
            dropped = self._figures.get(OTHERS)
            self._figures[OTHERS] = dropped + 1 if isinstance(dropped, int) else 1

    def _note(self, name: str, seconds: float, *, failed: bool) -> None:
        kept = self._name(name)
        with self._lock:
            if kept not in self._steps and len(self._steps) >= NAMES:
                kept = OTHERS
            step = self._steps.setdefault(kept, _Step())
            step.count += 1
            step.failed += failed
            step.seconds += seconds

    def _name(self, name: Any) -> str:
        if not isinstance(name, str):
            message = f"a step or figure is named by text, not by {type(name).__name__}"
            raise UsageError(message)
        return storable_text(name, NAME_CHARS)

    def _figure(self, name: str, value: Any) -> Figure:
        if isinstance(value, str):
            return storable_text(self._redact(value) if self._redact else value, TEXT_CHARS)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and abs(value) < 10**30:
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        message = (
            f"stats[{name!r}] must be a finite number, true, false, None or short text, not {type(value).__name__}"
        )
        raise UsageError(message)


def _is_number(value: Figure) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
