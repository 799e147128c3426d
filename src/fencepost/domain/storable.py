"""Text that can always be stored and shown, made from whatever a handler raised (SPEC R8)."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from types import TracebackType

from fencepost.domain.limits import ERROR_BYTES

_CUT = " ... [cut]"
_BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MOST_READ = 64 * 1024
_FRAMES = 30
_LINKS = 5
_MEMBERS = 10


def text(value: str, limit: int = ERROR_BYTES) -> str:
    """``value`` without NUL, control and direction characters and lone surrogates, at most ``limit`` bytes of UTF-8."""
    cut = len(value) > limit
    clean = _BAD.sub("\ufffd", value[: limit + 1])
    encoded = clean.encode("utf-8", "replace")
    if not cut and len(encoded) <= limit:
        return clean
    room = max(0, limit - len(_CUT))
    return encoded[:room].decode("utf-8", "ignore") + _CUT[: limit - min(room, len(encoded))]


def said(error: BaseException) -> str:
    """``str(error)``, whatever its methods do; a text that never ends can only be bounded by the run's own limits."""
    for speak in (str, repr):
        try:
            spoken = speak(error)
        except BaseException:  # noqa: BLE001, S112 - a broken __str__ must not hide the error itself
            continue
        if isinstance(spoken, str):
            return spoken[:_MOST_READ]
    return "(its text could not be read)"


def type_name(error: BaseException) -> str:
    """The class's name with its module, unless it is built in."""
    kind = type(error)
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", "?")
    return name if module in ("builtins", "__main__", None) else f"{module}.{name}"


def describe(error: BaseException, redact: Callable[[str], str] | None = None, *, limit: int = ERROR_BYTES) -> str:
    """The error, its causes and the tail of its traceback; redacted, storable, bounded. Frames show no locals."""
    parts: list[str] = []
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < _LINKS:
        seen.add(id(link))
        parts.append(f"{type_name(link)}: {said(link)}" + _members(link))
        parts.append(_frames(link.__traceback__))
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    told = "\n".join(part for part in parts if part)[:_MOST_READ]
    return text(redact(told) if redact else told, limit)


def _members(error: BaseException) -> str:
    if not isinstance(error, BaseExceptionGroup):
        return ""
    try:
        inner = error.exceptions
        shown = [f"\n  | {type_name(one)}: {said(one)[:300]}" for one in inner[:_MEMBERS]]
        more = f"\n  | and {len(inner) - _MEMBERS} more" if len(inner) > _MEMBERS else ""
    except Exception:  # noqa: BLE001 - whatever a subclass does
        return ""
    return "".join(shown) + more


def _frames(tb: TracebackType | None) -> str:
    try:
        frames = traceback.extract_tb(tb)[-_FRAMES:]
        return "".join(traceback.format_list(frames)).rstrip()[-ERROR_BYTES:]
    except Exception:  # noqa: BLE001 - a traceback is a help, never a reason to fail
        return ""
