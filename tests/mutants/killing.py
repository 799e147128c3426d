"""Runs named tests against a copy of the sources, and says what the tests said."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mutants.mutant import TOP, Copy, Mutant
from servers import versions

CHILD = "-m fencepost.worker.child"
_LAST_WORDS_S = 30.0
"""So long a run that was told to end may take to stop the servers it has started."""


@dataclass(frozen=True, slots=True)
class Said:
    """What became of one run. ``killed`` is by what a test said, ``waited`` by the end of a wait of its; ``why`` for people."""

    killed: bool
    waited: bool
    passed: frozenset[str]
    why: str
    seconds: float
    importers: tuple[str, ...]


@cache
def newest() -> str:
    """The newest server that this machine has, as the ids of the tests name it."""
    return f"pg{versions()[-1].major}"


def node(mutant: Mutant) -> str:
    """Its killer, as pytest takes it."""
    return mutant.killer.replace("{pg}", newest())


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def run(tests: Sequence[str], mutant: Mutant | None, *, within: float) -> Said:
    """Run these tests against the mutant, until the first that fails; all of them against the sources as they are."""
    with folder() as place:
        copy = Copy(place, mutant)
        witness, begun = place / "witness", time.monotonic()
        environment = _environment(copy, witness, mutant.by if mutant else "")
        if broken := _cannot_be_imported(mutant, environment):
            return Said(False, False, frozenset(), f"cannot be imported: {broken}", time.monotonic() - begun, ())
        flags = ["-p", "mutants.witness", "-p", "no:randomly", "-p", "no:cacheprovider", "-q", "--no-header"]
        command = [sys.executable, "-m", "pytest", *flags, *(["-x"] if mutant else []), *tests]
        ended, text = _finish(command, environment, within)
        notes = [json.loads(line) for line in witness.read_text().splitlines()] if witness.exists() else []
        importers = tuple(copy.importers())
        assert importers, f"the tests did not import the copy of the sources:\n{text[-3000:]}"
        word, why = _judge(notes, text, ended=ended, within=within)
        passed = frozenset(note["test"] for note in notes if note["word"] == "passed")
        bad = {note["test"] for note in notes if note["word"] != "passed"}
        return Said(word != "", word == "waited", passed - bad, why, time.monotonic() - begun, importers)


def _environment(copy: Copy, witness: Path, by: str) -> dict[str, str]:
    """The copy comes before everything, also for the processes that the tests start."""
    path = os.pathsep.join([str(copy.source), str(TOP / "tests")])
    return os.environ | {"PYTHONPATH": path, "MUTANTS_WITNESS": str(witness), "MUTANTS_BY": by}


def _cannot_be_imported(mutant: Mutant | None, environment: dict[str, str]) -> str:
    """Why not, or nothing: a worker that cannot even start would be noticed by any test that waits for one."""
    if mutant is None or not mutant.file.endswith(".py"):
        return ""
    module = "fencepost." + mutant.file.removesuffix(".py").replace("/", ".")
    told = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        env=environment,
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stderr.strip().rpartition("\n")[2] if told.returncode else ""


def _finish(command: list[str], environment: dict[str, str], within: float) -> tuple[bool, str]:
    """Whether it ended by itself, and what it printed."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, env=environment, cwd=TOP, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        ended = True
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            ended = False
        finally:
            _end(process)
        out.seek(0)
        return ended, out.read()


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does it, so that servers are stopped and folders removed; at last by force."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _judge(notes: list[dict[str, str]], text: str, *, ended: bool, within: float) -> tuple[str, str]:
    """How it was killed, or nothing; and the sentence for people."""
    for note in notes:
        if note["word"] in ("killed", "waited"):
            return note["word"], f"{note['test'].rpartition('::')[2]}: {note['text']}"
    if not ended:
        return "", f"no verdict within {within:g} s"
    for note in notes:
        if note["word"] == "broken":
            return "", f"broken, not refuted: {note['test'].rpartition('::')[2]}: {note['text']}"
    if not notes:
        return "", "no test ran: " + " ".join(text.split())[-200:]
    return "", "all its tests pass"
