"""A peer's readings: its adapter is started in its own environment, and every process of it ends in time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.bench.cost import Meter
from fencepost.bench.figures import percentile
from fencepost.bench.ground import ARGUMENTS
from fencepost.bench.sides import Reading
from peers import environments
from peers.facts import Mode, Peer
from peers.places import Place

_WITHIN_S = 180.0
_STOP_S = 5.0


class PeerError(Exception):
    """A peer did not do its work; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Driven:
    """A peer in its place."""

    peer: Peer
    place: Place

    def drain(self, mode: Mode, jobs: int, window_s: float) -> Reading:
        """One worker process empties its queue, or does what it can within so many seconds."""
        self.place.prepare(self.peer, jobs, lambda dsn: self._fill(dsn, jobs))
        with _counts() as counts, self.place.gate(self.peer) as release, self._worker(mode, counts) as pid:
            meter = Meter(self.place.pid, pid)
            release()
            began = time.perf_counter()
            done, seconds = self._watch(counts, jobs, began, window_s)
            cpu = meter.spent_s() if self.place.pid else None
        if not done:
            raise PeerError(f"no job was done within {window_s:.0f} s")
        return Reading(done, seconds, cpu)

    def enqueue(self, jobs: int) -> Reading:
        """So many jobs by its fastest call, in a process of its own; connecting is not timed."""
        self.place.prepare(self.peer, 0, lambda dsn: self._fill(dsn, 0))
        with _counts() as counts:
            answer = self._do(self._environ(self.place.dsn, "best", counts), "enqueue", str(jobs))
        found = self.place.left(self.peer)
        if found is not None and found != jobs:
            raise PeerError(f"{jobs} jobs were enqueued, and its tables have {found}")
        return Reading(jobs, float(answer["seconds"]))

    def latency(self, jobs: int, per_s: float) -> dict[str, float]:
        """Milliseconds from before the enqueue call to the handler's first line, with an idle worker."""
        self.place.prepare(self.peer, 0, lambda dsn: self._fill(dsn, 0))
        with _counts() as counts, self._worker("best", counts):
            self._do(self._environ(self.place.dsn, "best", counts), "send", str(jobs), str(per_s))
            until = time.monotonic() + 30
            while len(waits := _waits(counts)) < jobs:
                if time.monotonic() > until:
                    raise PeerError(f"{len(waits)} of {jobs} jobs began")
                time.sleep(0.05)
        return {"p50_ms": percentile(waits, 0.5) * 1000, "p99_ms": percentile(waits, 0.99) * 1000}

    def _fill(self, dsn: str, jobs: int) -> None:
        with _counts() as counts:
            environ = self._environ(dsn, "best", counts)
            self._do(environ, "install")
            if jobs:
                self._do(environ, "enqueue", str(jobs))

    def _watch(self, counts: Path, jobs: int, began: float, window_s: float) -> tuple[int, float]:
        """The handlers' count costs nothing to read; the peer's tables are asked when it says that all have begun."""
        known = self.peer.left is not None
        while (now := time.perf_counter()) - began < window_s:
            if _counted(counts) >= jobs and (not known or self.place.left(self.peer) == 0):
                return jobs, (time.perf_counter() if known else now) - began
            time.sleep(0.002)
        left = self.place.left(self.peer)
        return (_counted(counts) if left is None else jobs - left), time.perf_counter() - began

    def _environ(self, dsn: str, mode: Mode, counts: Path) -> dict[str, str]:
        place = {
            "dsn": dsn,
            "settings": self.peer.settings(mode),
            "counts": str(counts),
            "home": str(environments.HOME / self.peer.name),
            "arguments": ARGUMENTS,
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "PG"))}
        return kept | {"PEERS_PLACE": json.dumps(place), "PYTHONUNBUFFERED": "1", "NODE_ENV": "production"}

    def _do(self, environ: Mapping[str, str], *said: str) -> dict[str, Any]:
        words = [*environments.command(self.peer), *said]
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                words,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
            try:
                out, _ = process.communicate(timeout=_WITHIN_S)
            except subprocess.TimeoutExpired:
                raise PeerError(f"{said[0]} did not end within {_WITHIN_S:.0f} s") from None
            finally:
                _end(process, at_once=True)
            if process.returncode:
                raise PeerError(f"{said[0]} failed: {_last_words(log)}")
        lines = out.strip().splitlines()
        answer: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return answer

    @contextlib.contextmanager
    def _worker(self, mode: Mode, counts: Path) -> Iterator[int]:
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                [*environments.command(self.peer), "work"],
                env=self._environ(self.place.dsn, mode, counts),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                yield process.pid
            except (TimeoutError, PeerError) as error:
                raise PeerError(f"{error}; its worker said: {_last_words(log)}") from error
            finally:
                _end(process, at_once=False)


def _end(process: subprocess.Popen[Any], *, at_once: bool) -> None:
    """The process and its group, which is ours, are gone."""
    for number, wait_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, 30.0)):
        if at_once and number is signal.SIGTERM:
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)


@contextlib.contextmanager
def _counts() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fencepost-peers-") as folder:
        yield Path(folder)


def _counted(folder: Path) -> int:
    found = (path.read_bytes() for path in folder.glob("*.count"))
    return sum(struct.unpack("<Q", eight)[0] for eight in found if len(eight) == struct.calcsize("<Q"))


def _waits(folder: Path) -> list[float]:
    return [float(line) for path in folder.glob("*.waits") for line in path.read_text().split("\n")[:-1]]


def _last_words(log: Any) -> str:
    log.seek(0)
    text = log.read().decode(errors="replace")
    sys.stderr.write(text[-2000:])
    return environments.said(text)
