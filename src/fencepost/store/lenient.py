"""Values that PostgreSQL holds and Python does not, shown by the nearest that it has.

A time beyond Python's years, a number of more digits than it reads, a text nested too deeply: whoever reads one such
value with the driver as it is loses the whole answer, the rows of all others too (SPEC C12). On connections of ours
whose answers are shown to people; a claim brings its values into bounds by its statement.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import DataError
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader

from fencepost.domain.limits import JSON_DEPTH
from fencepost.domain.payload import decode

EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)
"""A day and more inside Python's years, so that each zone can show them."""


def adopt(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Read times and JSON leniently on this connection."""
    conn.adapters.register_loader("timestamptz", _Time)
    conn.adapters.register_loader("timestamptz", _BinaryTime)
    conn.adapters.register_loader("jsonb", _Json)
    conn.adapters.register_loader("jsonb", _BinaryJson)


class _Time(TimestamptzLoader):
    def load(self, data: Any) -> datetime:
        try:
            return _within(super().load(data))
        except DataError:
            text = bytes(data)
            return EARLIEST if text.startswith(b"-") or text.endswith(b"BC") else LATEST


class _BinaryTime(TimestamptzBinaryLoader):
    def load(self, data: Any) -> datetime:
        try:
            return _within(super().load(data))
        except DataError:
            return EARLIEST if bytes(data)[0] & 0x80 else LATEST  # its sign


class _Json(Loader):
    def load(self, data: Any) -> Any:
        return _value(bytes(data).decode())


class _BinaryJson(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> Any:
        return _value(bytes(data)[1:].decode())  # after the version of the form


def _within(moment: datetime) -> datetime:
    return EARLIEST if moment < EARLIEST else min(moment, LATEST)


def _value(text: str) -> Any:
    """The value, or its text where no reader of ours could take the value apart."""
    try:
        found = decode(text)
    except ValueError:
        return text
    return text if _is_deep(found) else found


def _is_deep(root: Any) -> bool:
    level, depth = [root], 0
    while level:
        if depth > JSON_DEPTH:
            return True
        level = [inner for value in level for inner in _inside(value)]
        depth += 1
    return False


def _inside(value: Any) -> list[Any]:
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [inner for inner in found if isinstance(inner, dict | list)]
