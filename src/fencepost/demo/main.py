"""``fencepost demo``: run the story, print the table and the proof. Exit code 0 only if the proof holds."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fencepost import early
from fencepost.errors import UsageError

NEEDED = ("aiohttp", "aiosmtpd")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the command takes. ``rows`` None: all of them; ``folder`` None: a temporary one, removed after success."""

    csv: Path | None = None
    key: str | None = None
    rows: int | None = None
    folder: Path | None = None
    json: bool = False


def run(options: DemoOptions) -> int:
    """Run the demo; 0 if the proof holds, 1 if it does not. Raises `UsageError` for a file that cannot be used."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f'the demo needs {" and ".join(missing)}: pip install "fencepost[demo]"')
    from fencepost.demo.progress import display, table
    from fencepost.demo.rows import read_rows
    from fencepost.demo.story import Story

    if options.rows is not None and options.rows < 50:
        raise UsageError("--rows must be 50 or more, so that there is time to kill a worker and restart the database")
    rows = read_rows(options.csv, options.key, options.rows)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="fencepost-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    early.interrupt_on_stops()  # or the workers would outlive us
    screen = display(options.json)
    try:
        told = Story(folder, rows, screen).run()
    finally:
        screen.close()
    proof = told.proof
    if options.json:
        figures = proof.as_dict() | {
            "seconds": round(told.seconds, 1),
            "killed": told.killed,
            "restarts": told.restarts,
        }
        print(json.dumps(figures))
    else:
        print("\n" + table(proof, told.seconds, told.killed, told.restarts) + "\n")
        _print_verdict(proof.broken)
    if proof.broken or options.folder is not None:
        if not options.json:
            print(f"Logs and files: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if proof.broken else 0


def _print_verdict(broken: list[str]) -> None:
    if not broken:
        print("The proof holds: nothing lost, one record per business key, although more requests than that were sent.")
        return
    print("The proof does NOT hold:")
    for sentence in broken:
        print(f"  - {sentence}")
