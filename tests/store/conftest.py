"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.store.wire import Wire
from servers import Database
from store.hands import DRIVERS, Driver, wire_driver


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest, database: Database) -> Iterator[Driver]:
    """The same flows on a sync connection, an async one, and the worker's wire."""
    made: Driver = DRIVERS[request.param](database.dsn)
    yield made
    made.close()


@pytest.fixture
def wire(database: Database) -> Iterator[Wire]:
    made = wire_driver(database.dsn)
    yield made
    made.close()
