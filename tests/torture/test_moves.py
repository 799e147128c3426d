"""The replay of the database's log against the storage itself: whatever the storage does well must look well."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fencepost.testing.torture import record
from fencepost.testing.torture.histories import History
from fencepost.testing.torture.verdict import Findings
from fencepost.testing.torture.witnesses.moves import Moves
from servers import Database
from sql.hands import perform
from sql.soak import Soak
from sql.test_soak import SEED, drain


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.spec("D4", "C3", "L3")
def test_all_operations_at_once_leave_a_log_in_which_nothing_is_found(database: Database, tmp_path: Path) -> None:
    with database.connect() as conn:
        record.begin(conn, "fencepost")

    async def soak() -> None:
        await Soak(database.dsn, 5, SEED).run()

    asyncio.run(asyncio.wait_for(soak(), 150))
    perform(database.dsn, drain)

    with database.connect() as conn:
        record.export(conn, tmp_path, "fencepost")
    findings = Findings()
    moves = Moves(findings, _keys(database), float("inf"))
    moves.replay(History(tmp_path))
    assert len(moves.runs) > 100
    assert findings.shown() == [], f"seed {SEED}"


def _keys(database: Database) -> dict[str, tuple[str, str]]:
    with database.connect() as conn:
        rows = conn.execute(
            "select distinct line->>'job_id', line->>'task', line->>'unique_key' from fencepost_torture_log.moves where place = 'job'"
        )
        return {name: (task, key) for name, task, key in rows if key is not None}
