"""Fixtures: servers of our own, a fresh database for each test, and what ``--nightly`` runs.

server          shared by the tests of this process that do not hurt it
database        a migrated database of this test's own, on ``server``
empty_database  the same without fencepost's schema
own_server      a server that this test may stop, kill, freeze; its database ``fencepost`` is migrated
each_version    like ``database``, once on each PostgreSQL that the machine has
scene           whole workers on ``database``
own_scene       whole workers on ``own_server``
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fencepost.sql.catalog import Catalog
from fencepost.store import schema
from servers import OWN, Database, Server, migrated, temporary_folder, versions
from servers import server as started
from store.migrating import Migrators
from worker.scene import Scene

BY_NAME = {name: Path(__file__).parent / name for name in ("failures", "interleave", "model", "points", "tortured")}
"""Run only where they are asked for: `make failures`, `make prove`."""

_USUAL = (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="also run the full-length tests")


def pytest_configure(config: pytest.Config) -> None:
    """Workers are told to stop by signals that they inherit as ignored when the tests themselves run in a background."""
    for number, usual in _USUAL:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for name, folder in BY_NAME.items():
        if not any(name in word for word in config.args):
            theirs = [item for item in items if folder in item.path.parents]
            items[:] = [item for item in items if folder not in item.path.parents]
            if theirs:
                config.hook.pytest_deselected(items=theirs)
    if not config.getoption("--nightly"):
        nightly = [item for item in items if item.get_closest_marker("nightly")]
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
        if nightly:
            config.hook.pytest_deselected(items=nightly)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "each_version" in metafunc.fixturenames:
        found = versions()
        metafunc.parametrize("each_version", found, ids=[f"pg{one.major}" for one in found], indirect=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests of this process that do not hurt it."""
    with started() as made:
        yield made


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    return migrated(server)


@pytest.fixture
def database(server: Server, template: str) -> Iterator[Database]:
    """A migrated database of this test's own."""
    name = server.create(template)
    yield Database(server.dsn_of(name), Catalog(), server)
    server.drop(name)


@pytest.fixture
def empty_database(server: Server) -> Iterator[Database]:
    """A database without fencepost's schema."""
    name = server.create()
    yield Database(server.dsn_of(name), Catalog(), server)
    server.drop(name)


@pytest.fixture(scope="session")
def migrated_data() -> Iterator[Path]:
    """The data folder of a stopped server whose database ``fencepost`` is migrated; to be copied."""
    with temporary_folder() as folder:
        made = Server(Path(folder) / "pg", settings=OWN)
        made.start()
        schema.migrate(made.dsn, Catalog())
        made.stop()
        yield made.folder / "data"


@pytest.fixture
def own_server(migrated_data: Path) -> Iterator[Server]:
    """A server that this test may stop, kill and freeze; its database ``fencepost`` is migrated."""
    with started(settings=OWN, copy_of=migrated_data) as made:
        yield made


@pytest.fixture(scope="session")
def migrators() -> Iterator[Migrators]:
    """Migrations in processes that may be killed at any point."""
    with closing(Migrators()) as made:
        yield made


@pytest.fixture(scope="session")
def servers_by_version() -> Iterator[tuple[ExitStack, dict[Path, tuple[Server, str]]]]:
    """One server of each version that was asked for, with its template database."""
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture
def each_version(
    request: pytest.FixtureRequest, servers_by_version: tuple[ExitStack, dict[Path, tuple[Server, str]]]
) -> Iterator[Database]:
    """A migrated database on each supported PostgreSQL that this machine has; one at least is always there."""
    stack, made_before = servers_by_version
    bindir: Path = request.param.bindir
    if bindir not in made_before:
        fresh = stack.enter_context(started(bindir))
        made_before[bindir] = fresh, migrated(fresh)
    made, template = made_before[bindir]
    name = made.create(template)
    yield Database(made.dsn_of(name), Catalog(), made)
    made.drop(name)


@pytest.fixture
def scene(database: Database) -> Iterator[Scene]:
    """Whole workers on a database of this test's own."""
    made = Scene(database)
    yield made
    made.close()


@pytest.fixture
def own_scene(own_server: Server) -> Iterator[Scene]:
    """The same on a server that may be stopped."""
    made = Scene(Database(own_server.dsn, Catalog(), own_server))
    yield made
    made.close()
