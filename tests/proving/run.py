"""`make prove`: every proof that takes minutes, one after the other; the last line is JSON.

    make prove                            the part that fits into a quarter of an hour on two cores
    make prove-long                       every order, every mutant, long tortures
    make prove ARGS="--only torture"      one of: tests, mutants, torture
    make prove ARGS=--quick               a short torture and the gate's mutants: what CI runs of it

Exit code 1: something was found, or a proof proved too little.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

PARTS, QUICK_PARTS = ("tests", "mutants", "torture"), ("mutants", "torture")
ROOMS = ("tests/interleave", "tests/points", "tests/model", "tests/design", "tests/tortured")
GATE_S, LONG_S, QUICK_S = (60.0, 60.0), (60.0, 60.0, 60.0, 60.0, 1800.0), (25.0,)
FEW = "kill-worker,freeze-worker,freeze-machine,answers-lost,sessions-ended,restart-immediate"
"""Kinds that all strike within the seconds of the quick one."""


@dataclass
class Proved:
    """What was shown, in numbers."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def line(self) -> str:
        numbers = ("jobs", "rescues", "refused_late_writes", "violations", "orders", "points", "rules")
        known = {name: self.counts[name] for name in (*numbers, "mutants_killed", "mutants_total")}
        return json.dumps(
            {**known, "faults": dict(sorted(self.faults.items())), "seeds": self.seeds, "failed": self.failed}
        )


def say(text: str) -> None:
    """Progress, as it comes."""
    print(f"prove: {text}", file=sys.stderr, flush=True)


def tests(proved: Proved, jobs: int, *, everything: bool) -> None:
    """The rooms whose tests count what they have looked at."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        words = [
            "-n",
            str(jobs),
            "--dist",
            "worksteal",
            "-q",
            f"--junitxml={told}",
            *(["--nightly"] if everything else []),
        ]
        code = subprocess.run(
            [sys.executable, "-m", "pytest", *ROOMS, *words], check=False, stdout=sys.stderr
        ).returncode
        if code:
            proved.failed.append(f"tests: exit code {code}")
        if told.exists():
            count(proved, told)


def count(proved: Proved, told: Path) -> None:
    """Add up the properties that the tests have recorded."""
    for one in ET.parse(told).iter("property"):
        name, value = one.get("name", ""), one.get("value", "")
        if name in ("orders", "points", "rules") and value.isdecimal():
            proved.counts[name] += int(value)


def mutants(proved: Proved, jobs: int, *, everything: bool) -> None:
    """Broken places, each with the harness that must notice."""
    words = ["--json", "--jobs", str(jobs), *([] if everything else ["--gate"])]
    found = last_line([sys.executable, "-m", "mutants.run", *words])
    for name in ("mutants_killed", "mutants_total"):
        proved.counts[name] += found.get(name, 0)
    if not found or found["survivors"]:
        proved.failed.append(f"mutants: {found.get('survivors', 'no result')}")


def torture(proved: Proved, seconds: float, faults: str = "") -> None:
    """Real workers under faults: of all kinds, or of these."""
    seed = secrets.randbelow(1_000_000)
    proved.seeds.append(seed)
    words = ["--seconds", str(seconds), "--seed", str(seed), "--json", "--faults", faults]
    found = last_line([sys.executable, "-m", "fencepost", "torture", *words])
    proved.faults.update(found.get("faults", {}))
    for name in ("jobs", "rescues", "refused_late_writes"):
        proved.counts[name] += found.get(name, 0)
    proved.counts["violations"] += found.get("violation_count", 0)
    if not found or found["exit"]:
        why = found.get("violations") or [*found.get("vacuous", ["no result"]), *found.get("inconclusive", [])]
        proved.failed.append(f"torture with seed {seed}: {why[:3]}")


def last_line(words: list[str]) -> dict[str, Any]:
    """What a program says at its end; empty if that is no JSON."""
    said = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()
    try:
        found = json.loads(said.rpartition("\n")[2])
    except ValueError:
        return {}
    return dict(found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make prove", description=__doc__.split("\n")[0])
    much = parser.add_mutually_exclusive_group()
    much.add_argument("--long", action="store_true", help="every order, every mutant, long tortures")
    much.add_argument("--quick", action="store_true", help="a short torture and the gate's mutants")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; repeatable")
    parser.add_argument("--jobs", type=int, default=3, help="how many test processes (3)")
    told = parser.parse_args()
    proved, begun = Proved(), time.monotonic()
    parts: tuple[str, ...] = tuple(told.only or (QUICK_PARTS if told.quick else PARTS))
    lengths: tuple[float, ...] = QUICK_S if told.quick else LONG_S if told.long else GATE_S
    if "torture" in parts:
        for seconds in lengths:
            say(f"torture for {seconds:g} s")
            torture(proved, seconds, FEW if told.quick else "")
    if "tests" in parts:
        say(f"orders, points, model and design: {' '.join(ROOMS)}")
        tests(proved, told.jobs, everything=told.long)
    if "mutants" in parts:
        say("mutants")
        mutants(proved, max(1, told.jobs - 1), everything=told.long)
    say(f"done in {time.monotonic() - begun:.0f} s")
    print(proved.line())
    return 1 if proved.failed or proved.counts["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
