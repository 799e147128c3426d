"""Fixtures of the command's tests."""

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
