"""Folders for embedded servers: short paths, and nothing left running in them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.server import EmbeddedServer


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder with a short name for one or more servers; whatever runs below it is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="fpe-", ignore_cleanup_errors=True) as name:
        yield Path(name)
        for lock in Path(name).rglob("start.lock"):
            EmbeddedServer(lock.parent).stop()


@pytest.fixture
def root(room: Path) -> Path:
    """Where no server has been yet."""
    return room / "pg"


@pytest.fixture(scope="session")
def made_data() -> Iterator[Path]:
    """A data folder as the embedded server makes it; copied, it saves a second."""
    with tempfile.TemporaryDirectory(prefix="fpe-", ignore_cleanup_errors=True) as name:
        server = EmbeddedServer(Path(name) / "pg").start()
        server.stop()
        yield server.layout.data


@pytest.fixture
def used_root(root: Path, made_data: Path) -> Path:
    """Where a server ran before."""
    root.mkdir()
    (root / "start.lock").touch()
    shutil.copytree(made_data, root / "data")
    return root
