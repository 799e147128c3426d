"""A database with its witness and an injector, for all points of one test process; and how many points there were."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost import App
from fencepost.client import again, batch
from fencepost.sql.catalog import Catalog
from fencepost.store.wire import Wire
from fencepost.worker.child import clerk, openclaim
from points.injector import injecting
from points.operations import Counted, World
from points.witness import Witness
from servers import Database, Server

Watched = tuple[Database, Witness, Wire]


@pytest.fixture(scope="session")
def watched(server: Server, template: str) -> Iterator[Watched]:
    """One database for all points: each begins with its tables empty."""
    name = server.create(template)
    database = Database(server.dsn_of(name), Catalog(), server)
    witness = Witness(database)
    with Wire(database.dsn, deadline=10.0, name="test") as hands:
        yield database, witness, hands
    witness.close()
    server.drop(name)


@pytest.fixture(scope="session")
def counts() -> dict[str, Counted]:
    """What each operation does without a fault: counted once in each test process."""
    return {}


@pytest.fixture
def world(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Pauses between two tries are short and the pieces of a batch are small: both are numbers, not rules."""
    monkeypatch.setattr(again, "PAUSES_S", (0.002,) * 3)
    monkeypatch.setattr(batch, "ROWS", 2)
    monkeypatch.setattr(clerk, "_RETRY_MOST_S", 0.002)
    monkeypatch.setattr(openclaim, "LOOK_EVERY_S", 0.0)
    database, witness, hands = watched
    with injecting(database.dsn) as injector:
        app = App(database.dsn)
        yield World(database.dsn, witness, injector, app, hands)
        app.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many points were injected, by all test processes together."""
    counts = [
        value
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, ())
        for name, value in getattr(report, "user_properties", ())
        if name == "points"
    ]
    if counts:
        terminalreporter.write_line(f"every point: {sum(counts)} faults injected by {len(counts)} tests")
