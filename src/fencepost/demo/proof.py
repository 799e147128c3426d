"""The proof, read from the outside world's own logs and from the database; it imports nothing that did the work."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

FIGURES = """
select (select count(*) from record),
       count(*),
       count(*) filter (where state = 'succeeded'),
       count(*) filter (where state = 'succeeded' and task = 'demo.register')
  from fencepost.jobs where task like 'demo.%'"""
RUNS = "select how, spent, count(*) from fencepost.runs group by how, spent"
FSCK = "select what, id, detail from fencepost.fsck limit 5"
QUARANTINE = "select count(*) from fencepost.quarantine"


@dataclass(slots=True)
class Proof:
    """What was counted, and the sentences that do not hold (none: the proof holds)."""

    rows: int = 0
    jobs: int = 0
    succeeded: int = 0
    attempts: int = 0
    retries: int = 0
    recoveries: int = 0
    handed_back: int = 0
    requests: int = 0
    registrations: int = 0
    mails: int = 0
    distinct_mails: int = 0
    reports: int = 0
    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, sentence: str) -> None:
        """Write ``sentence`` down where it does not hold."""
        if not holds:
            self.broken.append(sentence)

    def as_dict(self) -> dict[str, Any]:
        """The figures for ``--json``."""
        return {name: getattr(self, name) for name in self.__slots__} | {"holds": not self.broken}


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the whole lines of a witness's log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def prove(dsn: str, keys: list[str], requests: Path, mails: Path, reports: Path) -> Proof:
    """Hold the database's account against what the provider, the sink and the folder saw."""
    proof = Proof()
    n = len(keys)
    _database(proof, dsn, n)
    _provider(proof, read_log(requests), set(keys))
    _sink(proof, read_log(mails), n)
    pages = [p for p in reports.iterdir() if p.suffix == ".html"]
    whole = [p for p in pages if p.read_text(encoding="utf-8").rstrip().endswith("</html>")]
    proof.reports = len(whole)
    proof.expect(len(pages) == len(whole), f"{len(pages) - len(whole)} report files are not whole")
    proof.expect(len(whole) == n, f"{len(whole)} report files for {n} rows")
    return proof


def _database(proof: Proof, dsn: str, n: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(FIGURES).fetchone()
        assert row is not None
        proof.rows, proof.jobs, proof.succeeded, _registered = row
        for how, spent, count in conn.execute(RUNS).fetchall():
            proof.attempts += count if spent else 0
            proof.retries += count if how == "retry" else 0
            proof.recoveries += count if how == "stale" else 0
            proof.handed_back += count if how == "release" else 0
        wrong = conn.execute(FSCK).fetchall()
        aside = conn.execute(QUARANTINE).fetchone()
    proof.expect(proof.rows == n, f"{proof.rows} rows in the table for {n} in the file")
    proof.expect(proof.jobs == 3 * n, f"{proof.jobs} jobs for {n} rows: three each were enqueued with them")
    proof.expect(proof.succeeded == proof.jobs, f"{proof.jobs - proof.succeeded} jobs did not succeed")
    proof.expect(not wrong, f"the database contradicts itself: {wrong}")
    proof.expect(aside == (0,), f"{aside} rows lie in quarantine")


def _provider(proof: Proof, lines: list[dict[str, Any]], keys: set[str]) -> None:
    recorded = [line for line in lines if line["effect"] == "recorded"]
    proof.requests = len(lines)
    proof.registrations = len(recorded)
    twice = [key for key, count in Counter(line["record"] for line in recorded).items() if count > 1]
    lost = keys - {line["record"] for line in recorded}
    proof.expect(not twice, f"{len(twice)} records were registered twice: {twice[:3]}")
    proof.expect(not lost, f"{len(lost)} records were never registered: {sorted(lost)[:3]}")
    proof.expect(len({line["key"] for line in lines}) == len(keys), "a record came with more than one idempotency key")


def _sink(proof: Proof, lines: list[dict[str, Any]], n: int) -> None:
    accepted = [line for line in lines if line["effect"] == "accepted"]
    proof.mails = len(accepted)
    proof.distinct_mails = len({line["message_id"] for line in accepted})
    proof.expect(proof.distinct_mails == n, f"{proof.distinct_mails} distinct mails for {n} rows")
