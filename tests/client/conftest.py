"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.shop import Shop
from servers import Database


@pytest.fixture
def shop(database: Database) -> Iterator[Shop]:
    """An app with two tasks on a migrated database of one's own."""
    made = Shop(database)
    yield made
    made.close()
