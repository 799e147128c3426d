"""The check of a history: does what the witnesses saw keep the promises P1 to P11, and did they see enough?

    python -m fencepost.testing.torture.checker FOLDER

prints the verdict as JSON and ends with its code: 0 all held, 1 a promise was broken, 2 the run shows too little.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fencepost.testing.torture.histories import History
from fencepost.testing.torture.verdict import Findings, Verdict
from fencepost.testing.torture.witnesses.bodies import Bodies
from fencepost.testing.torture.witnesses.clients import Clients
from fencepost.testing.torture.witnesses.faults import Faults
from fencepost.testing.torture.witnesses.finals import Finals
from fencepost.testing.torture.witnesses.moments import Moments
from fencepost.testing.torture.witnesses.moves import Moves

LEAVING = 5.0
"""A stopped process may go so many seconds after its shutdown timeout (docs/operations.md)."""


def check(folder: Path) -> Verdict:
    """Read a history folder and judge it.

    Raises nothing for what the folder contains: a history that lacks a witness or has unreadable lines is inconclusive.
    """
    history = History(folder)
    if history.missing or history.unreadable:
        return Verdict(inconclusive=[*(f"{name} is missing" for name in history.missing), *history.unreadable])
    findings, moments = Findings(), Moments()
    max_attempts = history.setting("max_attempts", float("inf"))
    clients = Clients(history, findings)
    moves = Moves(findings, clients.keys, max_attempts)
    moves.replay(history)
    faults = Faults(history)
    bodies = Bodies(history, moves, findings, max_attempts, forgetful=faults.forgetful)
    finals = Finals(history, findings, moves)
    clients.bound(moves, moments)
    bodies.bound(moments)
    moments.settle()
    ttl, drained = history.setting("ttl", 30), history.meta.get("drained") is True
    clients.judge(moves, moments, max(ttl, faults.longest))
    bodies.judge(moments, faults, ttl)
    bodies.judge_stops(faults, history.setting("shutdown_timeout", float("inf")) + LEAVING)
    finals.judge(drained, clients, bodies, moves, faults)
    for what in history.meta.get("surprises") or ():
        findings.add("crew", None, str(what))
    return Verdict(
        jobs=len(clients.acknowledged()),
        faults=dict(sorted(faults.counts.items())),
        faults_on_running=dict(sorted(faults.on_running.items())),
        rescues=finals.rescues,
        reruns=bodies.reruns,
        refused_late_writes=finals.refused,
        violations=findings.shown(),
        violation_count=findings.counts.total(),
        rules=dict(sorted(findings.counts.items())),
        vacuous=vacuous(history, clients, bodies, faults, finals),
        inconclusive=inconclusive(history, drained, finals.unlogged(moves)),
        moments=moments,
    )


def vacuous(history: History, clients: Clients, bodies: Bodies, faults: Faults, finals: Finals) -> list[str]:
    """Why the run exercised too little to show anything."""
    seen = {
        "jobs": len(clients.acknowledged()),
        "acked_share": round(clients.share(), 3),
        "rescues": finals.rescues,
        "reruns": bodies.reruns,
        "refused_late_writes": finals.refused,
        "fault_kinds": len(faults.counts),
    }
    reasons = [
        f"{name} is {amount:g}, and should be {history.floor(name):g} or more"
        for name, amount in seen.items()
        if amount < history.floor(name)
    ]
    for kind in history.meta.get("kinds") or ():
        if not faults.counts[kind]:
            reasons.append(f"{kind} never happened")
        elif not faults.on_running[kind] and kind not in faults.excused:
            reasons.append(f"{kind} never met a running job")
    started = history.meta.get("started") or 0.0
    blind = [one for one in faults.stretches() if one[2] < history.floor("met_share")]
    if blind:
        begin, end, share = min(blind, key=lambda one: one[2])
        reasons.append(
            f"from {begin - started:.0f} s to {end - started:.0f} s only {share:.0%} of the faults met a running job, and "
            f"{history.floor('met_share'):.0%} or more should ({len(blind)} such {'stretch' if len(blind) == 1 else 'stretches'})"
        )
    return reasons


def inconclusive(history: History, drained: bool, unlogged: int) -> list[str]:
    """Why the history lets nobody say that everything held."""
    reasons = list(history.unreadable)
    if not drained:
        reasons.append("the jobs had not all ended when the run was over: nothing is said about those that were open")
    if unlogged:
        reasons.append(f"the database's log knows nothing of {unlogged} jobs")
    return reasons


def main(words: list[str]) -> int:
    """Print the verdict on the folder that is named."""
    if len(words) != 1 or not Path(words[0]).is_dir():
        sys.stderr.write("usage: python -m fencepost.testing.torture.checker FOLDER\n")
        return 2
    verdict = check(Path(words[0]))
    sys.stdout.write(json.dumps(verdict.to_json(), indent=2, ensure_ascii=False) + "\n")
    return verdict.exit


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
