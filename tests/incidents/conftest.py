"""Fixtures of the incidents.

provider    an HTTP provider in a process of its own
shop        real ``fencepost worker`` processes on a database of this test's own
own_shop    the same on a server that this test may stop and kill
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.sql.catalog import Catalog
from incidents.provider import Provider, started
from incidents.shop import Shop
from servers import Database, Server

HERE = Path(__file__).parent
LONG_S = 240
"""Of one test: its workers start and stop several times, which takes a loaded machine a while."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_S))


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with started(tmp_path) as made:
        yield made


@pytest.fixture
def shop(database: Database, provider: Provider) -> Iterator[Shop]:
    made = Shop(database, provider)
    yield made
    made.close()


@pytest.fixture
def own_shop(own_server: Server, provider: Provider) -> Iterator[Shop]:
    made = Shop(Database(own_server.dsn, Catalog(), own_server), provider)
    yield made
    made.close()
