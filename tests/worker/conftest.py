"""``scene``: a migrated database for whole workers; ``own_scene``: the same on a server that may be stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.sql.catalog import Catalog
from servers import Database, Server
from worker.scene import Scene


@pytest.fixture
def scene(database: Database) -> Iterator[Scene]:
    made = Scene(database)
    yield made
    made.close()


@pytest.fixture
def own_scene(own_server: Server) -> Iterator[Scene]:
    made = Scene(Database(own_server.dsn, Catalog(), own_server))
    yield made
    made.close()
