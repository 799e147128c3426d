"""What the leader asks the database for: its role, evidence, and bounded batches of every duty."""

from __future__ import annotations

from fencepost.sql.catalog import Catalog
from fencepost.store.faults import sqlstate
from fencepost.store.flow import Flow, Stmt
from fencepost.store.views import Evidence, Lead, ServiceRecord, VacuumCandidate

_VACUUM = {
    "delayed": "duties/vacuum_delayed",
    "gate": "duties/vacuum_gate",
    "leader": "duties/vacuum_leader",
    "outcome": "duties/vacuum_outcome",
    "parked": "duties/vacuum_parked",
    "ready": "duties/vacuum_ready",
    "running": "duties/vacuum_running",
    "worker": "duties/vacuum_worker",
}


def lead(sql: Catalog, token: int, lease_s: float, record: ServiceRecord | None) -> Flow[Lead]:
    """Take or renew the leader's lease; ``record`` is what was last found good, kept for a successor (SPEC C11)."""
    rows = yield Stmt(
        sql.statement("duties/lead"),
        {
            "token": token,
            "lease": lease_s,
            "started_at": record.started_at if record else None,
            "timeline": record.timeline if record else None,
            "good_at": record.at if record else None,
        },
    )
    leads, epoch, started_at, timeline, good_at = rows[0]
    known = None if started_at is None or good_at is None else ServiceRecord(
        started_at=started_at, timeline=timeline, at=good_at
    )  # fmt: skip
    return Lead(leading=bool(leads), epoch=int(epoch), record=known)


def resign(sql: Catalog, token: int) -> Flow[bool]:
    """Give the lease up, so that another need not wait for its end."""
    rows = yield Stmt(sql.statement("duties/resign"), {"token": token})
    return bool(rows[0][0])


def evidence(sql: Catalog) -> Flow[Evidence]:
    """One look at the service. The timeline is None where this role may not read the control file."""
    try:
        rows = yield Stmt(sql.statement("duties/evidence"))
    except Exception as error:
        if sqlstate(error) != "42501":
            raise
        rows = yield Stmt(sql.statement("duties/evidence_plain"))
    started_at, timeline, now, beats = rows[0]
    return Evidence(started_at=started_at, timeline=timeline, now=now, beats=tuple(beats))


def expire(sql: Catalog, limit: int) -> Flow[int]:
    """End waiting jobs whose time has passed; how many."""
    return (yield from _count(sql, "duties/expire", limit))


def purge(sql: Catalog, limit: int) -> Flow[int]:
    """Remove one batch whose retention and dedup window are over; how many."""
    return (yield from _count(sql, "duties/purge", limit))


def wake_known(sql: Catalog, limit: int) -> Flow[int]:
    """Let jobs in that some live worker knows by now; how many."""
    return (yield from _count(sql, "duties/wake_known", limit))


def sweep_gates(sql: Catalog, limit: int) -> Flow[int]:
    """Forget key limits that say nothing; how many."""
    return (yield from _count(sql, "duties/sweep_gates", limit))


def recount_gates(sql: Catalog, limit: int) -> Flow[int]:
    """Recount key limits that disagree with what runs, and wake what waits behind free ones; how many were wrong."""
    rows = yield Stmt(sql.statement("duties/wrong_gates"), {"limit": limit})
    if not rows:
        return 0
    rows = yield Stmt(sql.statement("duties/recount_gates"), {"ckeys": [row[0] for row in rows]})
    return int(rows[0][0])


def forget_workers(sql: Catalog, age_s: float, limit: int) -> Flow[int]:
    """Delete rows of processes that have not beaten for ``age_s`` seconds; no lease depends on them (SPEC C10)."""
    rows = yield Stmt(sql.statement("duties/forget_workers"), {"age_s": age_s, "limit": limit})
    return len(rows)


def rotate(sql: Catalog, after: int, base: int, sweep: int) -> Flow[int]:
    """Let rows enter the claim's index at a new place once ``after`` more were consumed; the base for the next call.

    ``sweep``: move at most so many rows that lie where no claim reads any more; 0: do not look.
    """
    rows = yield Stmt(sql.statement("duties/rotate"), {"after": after, "base": base, "sweep": sweep})
    return int(rows[0][0])


def vacuum_candidates(sql: Catalog, after: int) -> Flow[list[VacuumCandidate]]:
    """Narrow tables with at least ``after`` dead rows."""
    rows = yield Stmt(sql.statement("duties/vacuum_candidates"), {"after": after})
    return [VacuumCandidate(name=name, dead=dead, allowed=allowed) for name, dead, allowed in rows]


def horizon(sql: Catalog) -> Flow[tuple[str, float | None] | None]:
    """Who holds the oldest snapshot, and for how many seconds (None: unknown); None if nobody does."""
    rows = yield Stmt(sql.statement("duties/horizon"))
    return (str(rows[0][0]), rows[0][1]) if rows else None


def vacuum(sql: Catalog, table: str) -> Stmt:
    """The statement that vacuums one of the narrow tables; a KeyError for any other name."""
    return Stmt(sql.statement(_VACUUM[table]))


def _count(sql: Catalog, name: str, limit: int) -> Flow[int]:
    rows = yield Stmt(sql.statement(name), {"limit": limit})
    return int(rows[0][0])
