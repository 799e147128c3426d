"""The replay of the database's log against the storage itself: whatever the storage does well must look well."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psycopg
import pytest

from fencepost.testing.torture.histories import DATABASE, History
from fencepost.testing.torture.verdict import Findings
from fencepost.testing.torture.witnesses.moves import Moves
from servers import Database
from sql.hands import perform
from sql.soak import Soak
from sql.test_soak import SEED, drain

WITNESS = """
create table public.history (
  n bigint generated always as identity primary key, txid xid8 not null default pg_current_xact_id(),
  at timestamptz not null default clock_timestamp(), place text, op text, id bigint, line jsonb);
create function public.witness() returns trigger language plpgsql as $$
  declare l jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
  begin
    insert into public.history (place, op, id, line) values (tg_table_name, lower(tg_op), (l->>'id')::bigint, l);
    return null;
  end $$;
"""
PLACES = ("job", "ready", "delayed", "parked", "running", "outcome", "attempt", "held", "quarantine")
KEPT = ("run_count", "token", "attempts", "crashes", "state", "how", "spent", "max_attempts", "scope", "key", "job_id")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.spec("D4", "C3", "L3")
def test_all_operations_at_once_leave_a_log_in_which_nothing_is_found(database: Database, tmp_path: Path) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute(WITNESS)
        for place in PLACES:
            conn.execute(
                f"create trigger witness after insert or update or delete on fencepost.{place} for each row execute function public.witness()"
            )

    async def soak() -> None:
        await Soak(database.dsn, 5, SEED).run()

    asyncio.run(asyncio.wait_for(soak(), 150))
    perform(database.dsn, drain)

    findings = Findings()
    moves = Moves(findings, _keys(database), float("inf"))
    moves.replay(History(_exported(database, tmp_path)))
    assert len(moves.runs) > 100
    assert findings.shown() == [], f"seed {SEED}"


def _exported(database: Database, folder: Path) -> Path:
    with psycopg.connect(database.dsn) as conn, (folder / DATABASE).open("w") as file:
        rows = conn.execute(
            "select n, txid::text::bigint, extract(epoch from at)::float8, place, op, id, line from public.history order by n"
        )
        for n, txid, at, place, op, id_, line in rows:
            row = {name: line[name] for name in KEPT if name in line}
            file.write(
                json.dumps({"n": n, "txid": txid, "at": at, "place": place, "op": op, "id": id_, "row": row}) + "\n"
            )
    return folder


def _keys(database: Database) -> dict[str, tuple[str, str]]:
    with psycopg.connect(database.dsn) as conn:
        rows = conn.execute(
            "select distinct line->>'job_id', line->>'task', line->>'unique_key' from public.history where place = 'job'"
        )
        return {name: (task, key) for name, task, key in rows if key is not None}
