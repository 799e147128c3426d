"""Fixtures of the duty tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duty.scene import Scene


@pytest.fixture
def scene(database: Any) -> Iterator[Scene]:
    """A migrated database of one's own."""
    made = Scene(database.dsn, database.catalog)
    yield made
    made.close()


@pytest.fixture
def own_scene(own_server: Any) -> Iterator[tuple[Scene, Any]]:
    """The same on a server that may be stopped and started; its users wait for it."""
    made = Scene(own_server.dsn)
    yield made, own_server
    made.close()
