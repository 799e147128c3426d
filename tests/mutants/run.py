"""`make mutants`: break the product in one place after the other; the harness named for each must notice.

    make mutants                         all of them
    make mutants ARGS=--gate             eight, in a minute and a half
    make mutants ARGS="'a word of a name' 'another' --jobs 1"

The named tests first have to pass on the sources as they are. Exit code 1: a mutant survives, or no longer fits.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from mutants.killing import CHILD, Said, node, run
from mutants.known import ALL
from mutants.mutant import Mutant, Stale

WITHIN_S = 300.0
PROOF = "tests/worker/test_semantics.py::test_a_worker_that_drains_takes_nothing_new"
_talking = threading.Lock()


def say(text: str) -> None:
    """A line of progress, as it comes."""
    with _talking:
        print(text, file=sys.stderr, flush=True)


def chosen(words: Sequence[str], *, gate: bool) -> list[Mutant]:
    """Those whose names contain one of the words; all without a word."""
    found = [mutant for mutant in ALL if not words or any(word in mutant.name for word in words)]
    return [mutant for mutant in found if mutant.gate or not gate]


def stale(mutants: Sequence[Mutant]) -> list[str]:
    """A sentence for each that no longer fits."""
    found = []
    for mutant in mutants:
        try:
            mutant.patched()
        except Stale as error:
            found.append(str(error))
    return found


def sound(mutants: Sequence[Mutant], jobs: int) -> set[str]:
    """The named tests that pass on the sources as they are; one run for each file of tests, and each test in one only."""
    wanted = {node(mutant) for mutant in mutants} | {PROOF}
    files = sorted({test.split("::")[0] for test in wanted}, key=PROOF.startswith, reverse=True)

    def look(file: str) -> Said:
        here = sorted(test for test in wanted if test.startswith(file + "::"))
        said = run(here, None, within=WITHIN_S * len(here))
        say(f"as it is: {file}, {len(here)} named tests, {said.why}, {said.seconds:.0f} s")
        return said

    passed: set[str] = set()
    importers: list[str] = []
    with ThreadPoolExecutor(jobs) as pool:
        for said in pool.map(look, files):
            passed |= said.passed
            importers += said.importers
    assert CHILD in importers, f"worker processes do not import the copy of the sources: {sorted(set(importers))}"
    return {name for name in wanted if any(test == name or test.startswith(f"{name}[") for test in passed)}


def kill(mutant: Mutant, good: set[str]) -> Said:
    """Run its test against it; not one that fails anyway."""
    test = node(mutant)
    if test not in good:
        return Said(False, False, frozenset(), "its test does not pass on the sources as they are", 0.0, ())
    said = run([test], mutant, within=WITHIN_S)
    if said.waited:
        said = confirmed(said, run([test], None, within=WITHIN_S))
    say(f"{'killed  ' if said.killed else 'SURVIVES'} {said.seconds:5.0f} s  {mutant.name}")
    return said


def confirmed(said: Said, unbroken: Said) -> Said:
    """A wait that ended is a verdict only if, at this load of the machine, it does not end with the sources as they are."""
    seconds = said.seconds + unbroken.seconds
    if unbroken.killed or not unbroken.passed:
        why = f"no verdict, the machine has no time: as it is, {unbroken.why}"
        return replace(said, killed=False, why=why, seconds=seconds)
    return replace(said, seconds=seconds)


def table(mutants: Sequence[Mutant], results: Sequence[Said]) -> str:
    """One line each: mutant, harness, killed by, seconds."""
    width = max(len(mutant.name) for mutant in mutants)
    rooms = max(len(mutant.harness) for mutant in mutants)
    lines = [f"{'mutant':{width}}  {'harness':{rooms}}  {'s':>4}  killed by"]
    for mutant, said in zip(mutants, results, strict=True):
        verdict = said.why if said.killed else f"SURVIVES: {said.why}"
        lines.append(f"{mutant.name:{width}}  {mutant.harness:{rooms}}  {said.seconds:4.0f}  {verdict[:150]}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="words of the names of those to run; all without")
    parser.add_argument("--gate", action="store_true", help="only the eight of the gate")
    parser.add_argument("--json", action="store_true", help="print the last line only")
    parser.add_argument("--jobs", type=int, default=2, help="how many test processes (2)")
    told = parser.parse_args()
    mutants = chosen(told.names, gate=told.gate)
    if not mutants:
        parser.error("no mutant has such a name")
    if misfits := stale(mutants):
        say("\n".join(misfits))
        return 1

    begun = time.monotonic()
    good = sound(mutants, told.jobs)
    with ThreadPoolExecutor(told.jobs) as pool:
        results = list(pool.map(lambda mutant: kill(mutant, good), mutants))

    survivors = [mutant.name for mutant, said in zip(mutants, results, strict=True) if not said.killed]
    if not told.json:
        print(table(mutants, results))
        print(f"{len(mutants) - len(survivors)} of {len(mutants)} killed in {time.monotonic() - begun:.0f} s")
    counts = {"mutants_killed": len(mutants) - len(survivors), "mutants_total": len(mutants), "survivors": survivors}
    print(json.dumps(counts))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
