"""The programs of a torture: sink, client, and supervisors that are started again whenever one has ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from fencepost.errors import FencepostError
from fencepost.testing.torture.ground import Door, Ground
from fencepost.testing.torture.notes import Notes
from fencepost.testing.torture.settings import Settings

_LOOK_S = 0.05
_TAIL = 400_000
_LEADS = re.compile(rb'"this process leads now \(epoch (\d+)\)"')


class Squad:
    """One supervisor and its worker processes, behind a door of their own."""

    def __init__(self, folder: Path, number: int, door: Door) -> None:
        self.number, self.door = number, door
        self.log = folder / f"squad{number}.log"
        self.expected = False
        """Whether somebody of ours has told it to end, or killed it."""
        self._folder = folder
        self.start()

    def start(self) -> None:
        """Start its supervisor."""
        self.expected = False
        self.process = _program("worker", self._folder, self.door.dsn, self.log, stdin=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        return self.process.pid

    def children(self) -> list[int]:
        """Its worker processes."""
        with contextlib.suppress(OSError):
            found = map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())
            return [pid for pid in found if "fencepost.worker.child" in _command(pid)]
        return []

    def newest_epoch(self) -> int:
        """The newest epoch in which its leader has led, by its log."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL))
            return max(map(int, _LEADS.findall(file.read())), default=0)
        return 0


class Crew:
    """Everybody. `stop` ends them all, whatever became of them."""

    def __init__(self, folder: Path, ground: Ground, settings: Settings) -> None:
        self._folder, self._ground, self._settings = folder, ground, settings
        self.squads: list[Squad] = []
        self.surprises: list[str] = []
        """Ends that nobody has ordered: a worker or the client must survive everything."""
        self._stops = Notes(folder / "stops.jsonl")
        self._watching = threading.Event()
        self._watch = threading.Thread(target=self._keep_alive, name="crew", daemon=True)

    def start(self) -> None:
        """The sink, then the workers, then the client."""
        self._sink = _program("sink", self._folder, None, self._folder / "sink.log", stdout=subprocess.PIPE)
        assert self._sink.stdout is not None
        if self._sink.stdout.readline().strip() != b"ready":
            raise FencepostError(f"the sink did not start; see {self._folder / 'sink.log'}")
        for number in range(self._settings.supervisors):
            self.squads.append(Squad(self._folder, number, self._ground.door()))
        self._watch.start()
        self.door = self._ground.door()
        self._load = _program("load", self._folder, self.door.dsn, self._folder / "load.log")

    def close_load(self, within_s: float) -> bool:
        """Let the client ask what is unanswered and end; whether it could."""
        assert self._load.stdin is not None
        with contextlib.suppress(OSError):
            self._load.stdin.close()
        try:
            code = self._load.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        if code not in (0, 1):
            self.surprises.append(f"the client ended with exit code {code}; see {self._folder / 'load.log'}")
        return code == 0

    def stop_squad(self, squad: Squad) -> None:
        """SIGTERM, as a deploy does; how long it took and how it ended is a history of its own."""
        children = squad.children()
        squad.expected = True
        told = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(squad.pid, signal.SIGTERM)
        code = _ends(squad.process, self._settings.shutdown + 20)
        gone = time.monotonic()
        self._stops.add(t=told, pid=squad.pid, pids=children, signal="TERM", gone=gone, code=code)

    def stop_squads(self) -> None:
        """All of them at once; nobody is started again."""
        self._watching.set()
        self._watch.join(10)
        ends = [threading.Thread(target=self.stop_squad, args=(squad,)) for squad in self.squads]
        for one in ends:
            one.start()
        for one in ends:
            one.join()

    def stop(self) -> None:
        """End whoever is left, by force."""
        self._watching.set()
        pids = [pid for squad in self.squads for pid in (squad.pid, *squad.children())]
        pids += [process.pid for process in (getattr(self, "_load", None), getattr(self, "_sink", None)) if process]
        pids += strays(self._folder)
        for pid in pids:
            for number in (signal.SIGCONT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        for squad in self.squads:
            squad.process.wait()
            squad.door.close()
        if hasattr(self, "door"):
            self.door.close()

    def _keep_alive(self) -> None:
        while not self._watching.wait(_LOOK_S):
            for squad in self.squads:
                code = squad.process.poll()
                if code is None:
                    continue
                if not squad.expected:
                    self.surprises.append(f"supervisor {squad.pid} ended by itself with {code}; see {squad.log}")
                squad.start()
            load = getattr(self, "_load", None)
            if load is not None and load.poll() not in (None, 0, 1):
                self.surprises.append(f"the client ended with {load.poll()}; see {self._folder / 'load.log'}")
                del self._load


def strays(folder: Path) -> list[int]:
    """Living processes that carry this torture's folder in their environment: orphaned workers, job processes."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"FENCEPOST_TORTURE={folder}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def _program(
    name: str, folder: Path, dsn: str | None, log: Path, *, stdin: int = subprocess.PIPE, stdout: int | None = None
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "FENCEPOST_TORTURE": str(folder)} | ({"FENCEPOST_DSN": dsn} if dsn else {})
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", f"fencepost.testing.torture.{name}", str(folder)],
            stdin=stdin,
            stdout=out if stdout is None else stdout,
            stderr=out,
            env=environment,
            start_new_session=True,
        )


def _ends(process: subprocess.Popen[bytes], within_s: float) -> int | None:
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
