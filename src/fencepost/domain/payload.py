"""JSON that PostgreSQL stores unchanged: one strict writer, one exact reader.

The standard library writes, with ``allow_nan=False``; faster libraries turn NaN into null silently. What jsonb cannot
hold (NUL, lone surrogates), what no reader gives back (integers of thousands of digits) or what we will not (depth,
size) is refused with the path to it, before anything is sent. Values are never quoted: they may be secret.

What jsonb does change, and is not refused: the order and duplicates of keys, the sign of -0.0, and floats from 1e23 on
come back as (equal) integers, since jsonb keeps them as exact decimals.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from fencepost.domain.limits import INTEGER_DIGITS, JSON_DEPTH
from fencepost.errors import PayloadError

_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]{0,39}")
_INTEGER_BITS = int(INTEGER_DIGITS * math.log2(10))
_SHOWN = 40
_LARGE = 2**63
_write = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


def encode(value: Any, *, limit: int, what: str) -> str:
    """JSON text of at most ``limit`` bytes of UTF-8. Raises `PayloadError` naming ``what`` and the path."""
    if not _is_plain(value):
        _check(value, what, limit)
    try:
        text = _write(value)
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"{what} cannot be written as JSON: {type(error).__name__}"
        raise PayloadError(message) from None
    if size > limit:
        raise PayloadError(_too_large(what, f"{size:,}", limit))
    return text


def decode(text: str | bytes) -> Any:
    """The value; integers of any size stay exact. Raises ValueError for text that is no JSON or nested too deeply."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        message = "the JSON text is nested too deeply to be read"
        raise ValueError(message) from None


def _no_constant(name: str) -> Any:
    message = f"{name} is no JSON"
    raise ValueError(message)


def _is_plain(root: Any) -> bool:
    """Whether it is what nearly all payloads are, an object of ASCII text and small numbers, in which nothing is wrong.

    It says nothing of the others: `_check` does.
    """
    if type(root) is not dict:
        return False
    for key, value in root.items():
        kind = type(value)
        if kind is str:
            if not value.isascii() or "\0" in value:
                return False
        elif kind is int:
            if not -_LARGE < value < _LARGE:
                return False
        elif kind is not bool and value is not None:
            return False
        if type(key) is not str or not key.isascii() or "\0" in key:
            return False
    return True


def _check(root: Any, what: str, limit: int) -> None:
    """Walk without recursion, so that depth is an answer and not a crash.

    ``room`` is the least number of bytes that what was seen must take: a huge value, or a small one that contains the
    same list twice at every level, is refused before it is written out.
    """
    room = limit
    stack: list[tuple[Any, str, int]] = [(root, "$", 1)]
    while stack:
        value, path, depth = stack.pop()
        room -= 1
        if depth > JSON_DEPTH:
            message = f"{what} is nested deeper than {JSON_DEPTH} levels (or contains itself); flatten it"
            raise PayloadError(message)
        if isinstance(value, str):
            _check_text(value, path, what)
            room -= len(value) + 1
        elif isinstance(value, dict):
            stack += [(inner, _below(path, key, what), depth + 1) for key, inner in value.items()]
            room -= sum(len(key) + 3 for key in value)
        elif isinstance(value, list | tuple):
            if len(value) <= room:
                stack += [(inner, f"{path}[{i}]", depth + 1) for i, inner in enumerate(value)]
            room -= len(value)
        else:
            _check_scalar(value, path, what)
        if room < 0:
            raise PayloadError(_too_large(what, f"more than {limit:,}", limit))


def _check_scalar(value: Any, path: str, what: str) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            message = f"{what}: {path} is {float(value)}, which JSON does not have; use None or a text"
            raise PayloadError(message)
    elif isinstance(value, int):
        if value.bit_length() > _INTEGER_BITS:
            message = f"{what}: {path} is an integer of more than {INTEGER_DIGITS} digits; pass it as text"
            raise PayloadError(message)
    elif value is not None:
        message = (
            f"{what}: {path} is a {type(value).__name__}, which JSON cannot hold; pass text, numbers, lists or dicts"
        )
        raise PayloadError(message)


def _below(path: str, key: Any, what: str) -> str:
    if not isinstance(key, str):
        message = f"{what}: {path} has a key of type {type(key).__name__}; keys must be text"
        raise PayloadError(message)
    _check_text(key, f"a key of {path}", what)
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{key[:_SHOWN]!a}]"


def _check_text(text: str, path: str, what: str) -> None:
    if "\0" in text:
        message = f"{what}: {path} contains NUL (U+0000), which PostgreSQL cannot store; remove it"
        raise PayloadError(message)
    if not text.isascii() and _SURROGATE.search(text):
        message = f"{what}: {path} contains half a character (a lone surrogate); repair the text"
        raise PayloadError(message)


def _too_large(what: str, size: str, limit: int) -> str:
    return f"{what} is {size} bytes of JSON and {limit:,} are allowed; store it elsewhere and pass a reference"
