"""JSON that PostgreSQL stores unchanged: one strict writer, one exact reader.

The standard library writes, with ``allow_nan=False``; faster libraries turn NaN into null silently. What jsonb cannot
hold (NUL, lone surrogates) or we will not (depth, size) is refused with the path to it, before anything is sent.
"""

from __future__ import annotations

import json
import math
from typing import Any

from fencepost.domain.limits import JSON_DEPTH
from fencepost.errors import PayloadError

_SURROGATES = ("\ud800", "\udfff")


def encode(value: Any, *, limit: int, what: str) -> str:
    """JSON text of at most ``limit`` bytes of UTF-8. Raises `PayloadError` naming ``what`` and the path."""
    _check(value, what)
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"{what} cannot be written as JSON: {str(error)[:200]}"
        raise PayloadError(message) from None
    size = len(text.encode("utf-8"))
    if size > limit:
        message = f"{what} is {size:,} bytes of JSON and {limit:,} are allowed; store it elsewhere and pass a reference"
        raise PayloadError(message)
    return text


def decode(text: str | bytes) -> Any:
    """The value; integers of any size stay exact. Raises ValueError for text that is no JSON."""
    return json.loads(text)


def _check(root: Any, what: str) -> None:
    """Walk without recursion, so that depth is an answer and not a crash."""
    stack: list[tuple[Any, str, int]] = [(root, "$", 1)]
    while stack:
        value, path, depth = stack.pop()
        if depth > JSON_DEPTH:
            message = f"{what} is nested deeper than {JSON_DEPTH} levels (or contains itself); flatten it"
            raise PayloadError(message)
        if isinstance(value, str):
            _check_text(value, path, what)
        elif isinstance(value, float):
            if not math.isfinite(value):
                message = f"{what}: {path} is {value}, which JSON does not have; use None or a text"
                raise PayloadError(message)
        elif isinstance(value, dict):
            for key, inner in value.items():
                if not isinstance(key, str):
                    message = f"{what}: {path} has the key {key!r:.40}; keys must be text"
                    raise PayloadError(message)
                _check_text(key, path, what)
                stack.append((inner, f"{path}.{key[:40]}", depth + 1))
        elif isinstance(value, list | tuple):
            stack += [(inner, f"{path}[{i}]", depth + 1) for i, inner in enumerate(value)]
        elif value is not None and not isinstance(value, int):
            message = f"{what}: {path} is a {type(value).__name__}, which JSON cannot hold; pass text, numbers, lists or dicts"
            raise PayloadError(message)


def _check_text(text: str, path: str, what: str) -> None:
    if "\0" in text:
        message = f"{what}: {path} contains NUL (U+0000), which PostgreSQL cannot store; remove it"
        raise PayloadError(message)
    if not text.isascii() and any(_SURROGATES[0] <= char <= _SURROGATES[1] for char in text):
        message = f"{what}: {path} contains half a character (a lone surrogate); repair the text"
        raise PayloadError(message)
