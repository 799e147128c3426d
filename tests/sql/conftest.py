"""Fixtures of the storage tests.

guarded      a migrated database with the guard of L2, emptied before each test, on each PostgreSQL that the machine has
mutable      a migrated database, emptied before each test, whose functions a test may replace and must put back
breakpoints  a database of this test's own whose functions can be stopped at marked lines
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fencepost.sql.catalog import Catalog
from servers import Database, Server, migrated, versions
from servers import server as started
from sql import guard
from sql.breakpoints import Breakpoints


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "guarded" in metafunc.fixturenames:
        found = versions()
        metafunc.parametrize("guarded", found, ids=[f"pg{one.major}" for one in found], indirect=True)


@pytest.fixture(scope="session")
def guarded_databases() -> dict[Path, Database]:
    return {}


@pytest.fixture
def guarded(
    request: pytest.FixtureRequest,
    servers_by_version: tuple[ExitStack, dict[Path, tuple[Server, str]]],
    guarded_databases: dict[Path, Database],
) -> Database:
    stack, made_before = servers_by_version
    bindir: Path = request.param.bindir
    if bindir not in made_before:
        fresh = stack.enter_context(started(bindir))
        made_before[bindir] = fresh, migrated(fresh)
    if bindir not in guarded_databases:
        server, template = made_before[bindir]
        made = Database(server.dsn_of(server.create(template)), Catalog(), server)
        with made.connect() as conn:
            guard.install(conn)
        guarded_databases[bindir] = made
    with guarded_databases[bindir].connect() as conn:
        guard.empty(conn)
    return guarded_databases[bindir]


@pytest.fixture(scope="session")
def breakable(server: Server, template: str) -> str:
    """The name of a migrated database whose functions stop at their breakpoints."""
    name = server.create(template)
    with Database(server.dsn_of(name), Catalog(), server).connect() as conn:
        Breakpoints.install(conn)
    return name


@pytest.fixture
def breakpoints(server: Server, breakable: str) -> Iterator[Breakpoints]:
    name = server.create(breakable)
    with Breakpoints(server.dsn_of(name)) as made:
        yield made
    server.drop(name)


@pytest.fixture(scope="session")
def one_for_mutants(server: Server, template: str) -> Database:
    return Database(server.dsn_of(server.create(template)), Catalog(), server)


@pytest.fixture
def mutable(one_for_mutants: Database) -> Database:
    """A migrated database, emptied before each test, whose functions a test may replace and must put back."""
    with one_for_mutants.connect() as conn:
        guard.empty(conn)
    return one_for_mutants
