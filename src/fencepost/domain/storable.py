"""Text that can always be stored and shown, made from whatever a handler raised (SPEC R8).

What cannot be bounded here: a ``__str__`` that never returns. It holds the thread that asked, as the handler itself
would have, and is ended like it, by the run's own limits (SPEC W7).
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from fencepost.domain.limits import ERROR_BYTES, NOTE_CHARS

CUT = " ... [cut]"
_GAPS = (" \n", "\"',;&<>(){[")  # the second in JSON and URLs without white space; never inside the mask of `redact`
_GAP_WITHIN = 8192
_CUT_HEAD = "[cut] ... "
_NEWLINE = re.compile("\r\n?|[\x85\u2028\u2029]")
# controls but tab and line feed, what changes the direction of text (CVE-2021-42574), half characters
_BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FRAMES = 30
_LINKS = 5
_MEMBERS = 10
_MEMBER_CHARS = 300
_NOTES = 5
_VISITS = 1000
_SILENT = "(its text could not be read)"

Redact = Callable[[str], str]


def text(value: str, limit: int = ERROR_BYTES) -> str:
    """``value`` in at most ``limit`` bytes of UTF-8 that PostgreSQL can hold and a terminal can show.

    NUL, other control characters, direction marks and lone surrogates become U+FFFD, so that their place is seen; line
    ends become line feeds. Tab and line feed stay. What is too long is cut on a character's boundary, and says so.
    """
    whole = _plain(value)
    head = whole[: limit + 1]
    clean = _BAD.sub("\ufffd", _NEWLINE.sub("\n", head))
    encoded = clean.encode("utf-8", "replace")
    if len(head) == len(whole) and len(encoded) <= limit:
        return clean
    room = max(0, limit - len(CUT))
    return encoded[:room].decode("utf-8", "ignore") + CUT[: limit - min(room, len(encoded))]


def said(error: Any) -> str:
    """``str(error)``, or its ``repr``, whatever these do; of a huge text the first 64 Ki characters."""
    for speak in (str, repr):
        try:
            spoken = speak(error)
        except BaseException:  # noqa: BLE001, S112 - a broken __str__ must not hide the error itself
            continue
        return shortened(_plain(spoken))
    return _SILENT


def shortened(value: str) -> str:
    """The first 64 Ki characters at most, cut at a gap between words, so that no half of a secret is left."""
    if len(value) <= NOTE_CHARS:
        return value
    head, least = value[: NOTE_CHARS - len(CUT)], NOTE_CHARS - _GAP_WITHIN
    for marks in _GAPS:
        gap = max(head.rfind(mark, least) for mark in marks)
        if gap > 0:
            return head[:gap] + CUT
    return head[:least] + CUT


def type_name(error: Any) -> str:
    """The class's name with its module, unless it is built in; never raises."""
    kind = type(error)
    try:
        module, name = str(kind.__module__), str(kind.__qualname__)
    except BaseException:  # noqa: BLE001 - a metaclass may do anything
        return "(a class without a name)"
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def describe(error: BaseException, redact: Redact | None = None, *, limit: int = ERROR_BYTES) -> str:
    """The error with its notes and members, its causes, and the end of its traceback, in at most ``limit`` bytes.

    Redacted piece by piece *before* anything is cut, so that no cut leaves half a secret unknown. Frames show file,
    line and source, never locals. The message comes first; at least half of the room is left to the traceback. Never
    raises, and a redactor that fails hides the text.
    """
    if redact is None:
        redact = _unchanged
    links = _chain(error)
    heads = [_head(link, redact) for link in links]
    told = text("\ncaused by: ".join(heads), max(limit // 2, limit - ERROR_BYTES))
    frames = "\n".join(part for part in (_frames(link, redact) for link in reversed(links)) if part)
    room = limit - len(told.encode("utf-8")) - 1
    if not frames or room <= len(_CUT_HEAD):
        return told
    return told + "\n" + _tail(frames, room)


def leaves(error: BaseException, most: int = _MEMBERS) -> tuple[list[BaseException], int]:
    """The first errors inside a group, however it is nested, and how many there are (of the first thousand looked at).

    An error that is no group is its own leaf.
    """
    found: list[BaseException] = []
    count = visits = 0
    stack: list[BaseException] = [error]
    while stack and visits < _VISITS:
        visits += 1
        one = stack.pop()
        inner = _members(one)
        if inner is None:
            count += 1
            if len(found) < most:
                found.append(one)
        else:
            stack += reversed(inner[:_VISITS])
    return found, count


def _members(error: BaseException) -> list[BaseException] | None:
    if not issubclass(type(error), BaseExceptionGroup):
        return None
    try:
        return [one for one in error.exceptions if issubclass(type(one), BaseException)]  # type: ignore[attr-defined]
    except BaseException:  # noqa: BLE001 - whatever a subclass does
        return None


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < _LINKS and all(link is not known for known in chain):
        chain.append(link)
        try:
            link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        except BaseException:  # noqa: BLE001 - a property of that name
            break
    return chain


def _head(error: BaseException, redact: Redact) -> str:
    parts = [f"{type_name(error)}: {said(error)}"]
    try:
        notes = list(error.__notes__)[:_NOTES]
    except BaseException:  # noqa: BLE001 - mostly: it has none
        notes = []
    parts += [said(note) for note in notes]
    if _members(error) is not None:
        inner, count = leaves(error)
        parts += [f"  | {type_name(one)}: {_masked(said(one), redact)[:_MEMBER_CHARS]}" for one in inner]
        if count > len(inner):
            parts.append(f"  | and {count - len(inner)} more")
    return _masked(shortened("\n".join(parts)), redact)


def _frames(error: BaseException, redact: Redact) -> str:
    try:
        tb: TracebackType | None = error.__traceback__
        lines = traceback.format_list(traceback.extract_tb(tb, limit=-_FRAMES))
    except BaseException:  # noqa: BLE001 - a traceback is a help, never a reason to fail
        return ""
    return _masked("".join(lines)[-NOTE_CHARS:].rstrip(), redact)


def _tail(value: str, limit: int) -> str:
    clean = _BAD.sub("\ufffd", _NEWLINE.sub("\n", value)).encode("utf-8", "replace")
    if len(clean) <= limit:
        return clean.decode("utf-8")
    return _CUT_HEAD + clean[-(limit - len(_CUT_HEAD)) :].decode("utf-8", "ignore")


def _masked(value: str, redact: Redact) -> str:
    try:
        return _plain(redact(value))
    except Exception:  # noqa: BLE001 - rather nothing than a secret
        return "[hidden: the redactor failed]"


def _unchanged(value: str) -> str:
    return value


def _plain(value: Any) -> str:
    """The text itself, of exactly the type str: a subclass may override slicing, or lie about its length."""
    if type(value) is str:
        return value
    return str.__str__(value) if isinstance(value, str) else said(value)
