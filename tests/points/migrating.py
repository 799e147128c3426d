"""Migrations that fail once at each of their calls, and are run again as the sentence of the error says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from fencepost.errors import OutageError
from fencepost.sql.catalog import Catalog
from fencepost.store import schema
from points.injector import REFUSED_COMMIT, WAYS, Call, Injector
from points.operations import FATES, TRIES, Found
from servers import Database
from store.migrating import shape


@dataclass
class Migrations:
    """One database; each point has a schema of its own in it."""

    database: Database
    injector: Injector
    conn: psycopg.Connection[Any]
    made: int = 0

    def prepare(self) -> None:
        self.conn.execute(REFUSED_COMMIT.encode())

    def explore(self, way: str, *, everything: bool = True, most: int = 10_000) -> Found:
        """Count the calls of a migration of an empty database, then fail each that this way can happen to.

        Not ``everything``: the writing of a function and the line of its record come fifty times in one transaction;
        each of them then meets one of the ways. ``most``: the first so many calls only.
        """
        found = Found()
        wrong = [*self._play(None, -1)]
        assert wrong == [], f"without any fault: {wrong}"
        right = shape(self.conn, self._name)
        points = [
            (at, call.text)
            for at, call in enumerate(self.injector.calls[:most])
            if call.can(way) and (everything or not _is_common(call) or (at + WAYS.index(way)) % len(WAYS) == 0)
        ]
        for at, text in points:
            wrong = [*self._play(way, at)]
            if self.injector.fired is None:
                wrong.append("the fault did not happen")
            if shape(self.conn, self._name) != right:
                wrong.append("the schema is another one than without the fault")
            found.points += 1
            found.wrong += [f"{way} at {at} ({text}): {one}" for one in wrong]
            self.conn.execute(f"drop schema {self._name} cascade".encode())
        return found

    @property
    def _name(self) -> str:
        return f"p{self.made}"

    def _play(self, way: str | None, at: int) -> Iterator[str]:
        self.made += 1
        catalog = Catalog(self._name)
        with self.injector.armed(way, at):
            yield from self._migrate(catalog)
        report = schema.check(self.conn, catalog)
        if report.state != "current":
            yield report.sentence
        elif self.conn.execute(f"select what from {self._name}.fsck".encode()).fetchall():
            yield "fsck finds something"

    def _migrate(self, catalog: Catalog) -> Iterator[str]:
        told: list[str] = []
        while len(told) < TRIES:
            try:
                schema.migrate(self.database.dsn, catalog)
                return
            except (*FATES, OutageError) as error:
                told.append(repr(error))
            except Exception as error:
                yield f"it raised {error!r}"
                return
        yield f"it does not come to its end: {told}"


def _is_common(call: Call) -> bool:
    return call.text.startswith(("CREATE OR REPLACE FUNCTION", "insert into")) or "migration" in call.text
