"""The folder that a run of the harness leaves: which files, and how they are read.

Every file but ``meta.json`` has one JSON object a line. Files of processes that may be killed may end in the middle of a
line; a line that cannot be read anywhere else is told in ``unreadable``, and such a history proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

META, JOBS, RUNS, DATABASE, EFFECTS = "meta.json", "jobs.jsonl", "runs.jsonl", "database.jsonl", "effects.jsonl"
FAULTS, FSCK, STOPS, TICKS, SECRETS = "faults.jsonl", "fsck.jsonl", "stops.jsonl", "ticks.jsonl", "secrets.jsonl"
ENQUEUES, WORKERS = "enqueue-*.jsonl", "worker-*.jsonl"
REQUIRED = (META, JOBS, RUNS, DATABASE, EFFECTS, FAULTS, FSCK)
TOLD = 20
"""So many unreadable lines are told one by one."""

Line = dict[str, Any]


class History:
    """One folder. Reads as often as it is asked, and holds no line in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unreadable: list[str] = []
        self.missing = [name for name in REQUIRED if not (folder / name).is_file()]
        if not self.files(ENQUEUES):
            self.missing.append(ENQUEUES)
        self.meta: Line = {} if META in self.missing else self._meta()

    def setting(self, name: str, default: float) -> float:
        """A number of the run's settings."""
        value = self._part("settings").get(name)
        return float(value) if isinstance(value, int | float) else default

    def floor(self, name: str) -> float:
        """How much of something a run must have seen; 0 where it does not say."""
        value = self._part("floors").get(name)
        return float(value) if isinstance(value, int | float) else 0

    def _part(self, name: str) -> Line:
        part = self.meta.get(name)
        return part if isinstance(part, dict) else {}

    def files(self, pattern: str) -> list[Path]:
        """The files of one kind, always in the same order."""
        return sorted(self.folder.glob(pattern))

    def each(self, name: str, *needed: str) -> Iterator[Line]:
        """The lines of a file, each with the fields that are needed; of a file that is not there, none."""
        path = self.folder / name
        if path.is_file():
            yield from self.read(path, *needed)

    def read(self, path: Path, *needed: str, may_be_cut: bool = False) -> Iterator[Line]:
        """The lines of one file. ``may_be_cut``: its process may have died in the middle of the last one."""
        decode = json.JSONDecoder().raw_decode  # a third faster than loads
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for number, text in enumerate(file, 1):
                try:
                    line, end = decode(text)
                    if text[end:].strip():
                        raise ValueError("more than one value")  # noqa: TRY301 - both are told below, as one
                except ValueError:
                    if not may_be_cut or text.endswith("\n"):
                        self.note(path.name, number, "no JSON")
                    continue
                if not isinstance(line, dict):
                    self.note(path.name, number, "no object")
                    continue
                for field in needed:
                    if field not in line:
                        self.note(path.name, number, f"no {field}")
                        break
                else:
                    yield line

    def note(self, name: str, number: int, why: str) -> None:
        """A line could not be used."""
        if len(self.unreadable) < TOLD:
            self.unreadable.append(f"unreadable: {name}, line {number}: {why}")

    def _meta(self) -> Line:
        try:
            meta = json.loads((self.folder / META).read_text(encoding="utf-8"))
        except ValueError:
            meta = None
        if isinstance(meta, dict):
            return meta
        self.note(META, 1, "no JSON object")
        return {}
