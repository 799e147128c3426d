"""A migration that fails once at any of its calls is mended by the next one (SPEC A4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fencepost.store import migrator
from points.injector import WAYS, injecting
from points.migrating import Migrations
from servers import Database


@pytest.fixture
def migrations(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Migrations]:
    monkeypatch.setattr(migrator, "_AGAIN_S", 0.005)
    with injecting(empty_database.dsn) as injector, empty_database.connect() as conn:
        made = Migrations(empty_database, injector, conn)
        made.prepare()
        yield made


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.spec("A4")
@pytest.mark.parametrize("way", WAYS)
def test_a_migration_that_fails_at_any_point_is_mended_by_the_next(
    migrations: Migrations,
    way: str,
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> None:
    found = migrations.explore(way, everything=request.config.getoption("--nightly"))

    record_property("points", found.points)
    assert found.wrong == [], found.show()
