"""``fleet(plan, **settings)``: a supervisor with fake children on this test's database, ended with the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from servers import Database
from worker.supervisor.fleet import Fleet, FleetMaker


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Iterator[FleetMaker]:
    with ExitStack() as stack:

        def make(plan: dict[str, Any] | None = None, **more: Any) -> Fleet:
            made = Fleet(tmp_path, database, plan or {}, **more)
            stack.callback(made.close)
            return made

        yield make
