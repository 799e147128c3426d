"""The guardian: a small process that owns the embedded PostgreSQL and stops it when its last user is gone.

Started by `fencepost.embedded.server` as ``python -I -S guardian.py ROOT ADOPT COMMAND...`` in its own session. It is
run by its path and needs nothing but the standard library, so it also works where fencepost cannot be imported in
isolated mode.

Why a process of its own: users come and go and may be killed at any moment. Each of them holds a *shared* kernel lock
on ``use.lock``, which the kernel takes back on any kind of death; so "can I have it exclusively?" is a reference count
that cannot go stale. And the postmaster must have a parent that reaps it: PostgreSQL refuses to start while a process
with the recorded pid exists, even a zombie.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

DATA = "data"
LOG = "log"
USE_LOCK = "use.lock"
GUARDIAN_LOCK = "sup.lock"
KEEP = "keep"
LOOK_EVERY_S = 0.2
FAST_STOP_S = 60.0
IMMEDIATE_STOP_S = 10.0
GUARDED = 3
"""Exit code of a guardian that was not needed: another one has the server."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def open_lock(path: Path) -> int:
    """Open (or create) a lock file. The descriptor does not survive an exec, so programs we start never hold it."""
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def try_lock(fd: int, mode: int) -> bool:
    """Take the lock now or say no."""
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def recorded_pid(data: Path) -> int | None:
    """The pid in ``postmaster.pid``, whatever it names; None without a readable one."""
    try:
        return abs(int((data / "postmaster.pid").read_text().split("\n", 1)[0]))
    except (OSError, ValueError):
        return None


def is_gone(pid: int) -> bool:
    """Is there no such process? A zombie counts as gone: it holds nothing and will never run again."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            return stat.read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
        except (OSError, IndexError):
            return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _ps(pid, "state").startswith("Z")


def living_postmaster(data: Path) -> int | None:
    """The pid of a living postmaster of exactly this data folder; None for a stale or foreign pid.

    After a reboot or in a container the recorded pid may name any process; it is believed only when it is called
    postgres and works in this folder.
    """
    pid = recorded_pid(data)
    if not pid or is_gone(pid):
        return None
    try:
        if Path("/proc/self").exists():
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            mine = Path(f"/proc/{pid}/cwd").samefile(data)
        else:  # macOS and the BSDs
            name = Path(_ps(pid, "comm")).name
            mine = str(data.resolve()) in _ps(pid, "command") or f"-D {DATA}" in _ps(pid, "command")
    except OSError:
        return None
    return pid if name == "postgres" and mine else None


def _ps(pid: int, column: str) -> str:
    """One column of ps about one process; empty when there is none."""
    found = subprocess.run(["ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def stop_postmaster(pid: int, *, within_s: float = FAST_STOP_S) -> bool:
    """Fast shutdown, then immediate, then the kernel's; True when the process is gone."""
    for how, patience in ((signal.SIGINT, within_s), (signal.SIGQUIT, IMMEDIATE_STOP_S), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        end = time.monotonic() + patience
        while time.monotonic() < end:
            with contextlib.suppress(ChildProcessError):  # only the guardian itself is its parent
                os.waitpid(pid, os.WNOHANG)
            if is_gone(pid):
                return True
            time.sleep(0.02)
    return is_gone(pid)


def _tie_to(parent: int, libc: ctypes.CDLL | None) -> None:
    """In the child, before exec: end with the guardian, even when that dies by SIGKILL (prctl(2), Linux only)."""
    if libc is None:
        return
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
    if os.getppid() != parent:  # it died between fork and prctl
        os._exit(1)


def _start(command: list[str], log: int, *, tied: bool) -> int:
    """Start postgres as our direct child, in a session of its own; answers its pid."""
    libc = ctypes.CDLL(None) if tied else None
    me = os.getpid()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=lambda: _tie_to(me, libc),  # noqa: PLW1509 - this process has one thread
    )
    return child.pid


def guard(*, adopt: bool, command: list[str]) -> int:
    """Run or adopt the server of the current folder until nobody uses it. Answers the exit code.

    One guardian a folder. It waits for one that is leaving, and leaves itself where another one's server lives: waiting
    for that one's end, it would start again what somebody has stopped. It starts nothing that nobody wants any more.

    Args:
        adopt: watch a server that is already running instead of ending it (systems without a parent-death signal).
        command: how to start postgres, with its options.
    """
    stopping: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    data = Path(DATA)
    lock = open_lock(Path(GUARDIAN_LOCK))
    while not try_lock(lock, fcntl.LOCK_EX):
        if stopping or living_postmaster(data):
            return GUARDED
        time.sleep(0.02)
    use = open_lock(Path(USE_LOCK))
    unwanted = not Path(KEEP).exists() and try_lock(use, fcntl.LOCK_EX)  # whoever asked for us has gone
    orphan = living_postmaster(data)
    if orphan and (unwanted or not adopt):
        stop_postmaster(orphan)
        orphan = None
    if unwanted:
        return 0
    if not orphan:
        (data / "postmaster.pid").unlink(missing_ok=True)  # with the guardian lock held nobody else may run this folder
    pid = orphan or _start(command, sys.stderr.fileno(), tied=not adopt)
    while not _ended(pid):
        if stopping or (not Path(KEEP).exists() and try_lock(use, fcntl.LOCK_EX)):
            stop_postmaster(pid)  # the exclusive lock is kept until we are gone: a new user waits for it
            return 0
        time.sleep(LOOK_EVERY_S)
    return 0 if stopping else 1


def _ended(pid: int) -> bool:
    """Reap the postmaster if it is our child and has ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return is_gone(pid)


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    sys.exit(guard(adopt=sys.argv[2] == "adopt", command=sys.argv[3:]))
