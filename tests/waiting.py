"""Waiting for a condition: the only file of the tests that may sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], within: float = 10.0, every: float = 0.02) -> T:
    """The first truthy answer of ``check``; fails with the last answer after ``within`` seconds."""
    ends = time.monotonic() + within
    while True:
        last = check()
        if last:
            return last
        if time.monotonic() > ends:
            raise AssertionError(f"not within {within} s; the last answer was {last!r}")
        time.sleep(every)


async def aeventually(check: Callable[[], T | Awaitable[T]], within: float = 10.0, every: float = 0.02) -> T:
    """The same for async tests; ``check`` may be a coroutine function."""
    ends = time.monotonic() + within
    while True:
        got = check()
        last: T = await got if isinstance(got, Awaitable) else got
        if last:
            return last
        if time.monotonic() > ends:
            raise AssertionError(f"not within {within} s; the last answer was {last!r}")
        await asyncio.sleep(every)


def always(check: Callable[[], object], during: float, every: float = 0.05) -> None:
    """``check`` is true now and stays true for ``during`` seconds: how to show that something does *not* happen."""
    ends = time.monotonic() + during
    while time.monotonic() < ends:
        last = check()
        if not last:
            raise AssertionError(f"not true any more within {during} s; the answer was {last!r}")
        time.sleep(every)


def settled(look: Callable[[], T], during: float, within: float = 30.0, every: float = 0.2) -> T:
    """What ``look`` sees once that has stayed the same for ``during`` seconds; fails after ``within`` seconds."""
    ends = time.monotonic() + within
    seen, since = look(), time.monotonic()
    while time.monotonic() < since + during:
        if time.monotonic() > ends:
            raise AssertionError(f"it changed all the time for {within} s; the last was {seen!r}")
        time.sleep(every)
        if (now := look()) != seen:
            seen, since = now, time.monotonic()
    return seen


def pause(seconds: float) -> None:
    """For what is *about* a distance in time."""
    time.sleep(seconds)
