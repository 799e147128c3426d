"""An operation is a generator: it yields statements and is sent rows. Sync and async drive the same text.

    def answer(sql: Catalog) -> Flow[int]:
        rows = yield Stmt("select %(x)s::int", {"x": 42})
        return rows[0][0]

`fencepost.store.drive` has the two drivers, `fencepost.store.wire` the worker's own connection.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Stmt:
    """One statement with psycopg parameters. ``sql`` comes from the catalogue, values never become SQL."""

    sql: str
    params: Mapping[str, Any] | Sequence[Any] = ()


Flow = Generator[Stmt, Rows, T]
