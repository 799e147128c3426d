"""A disk that can be full: a file system in memory. Full means: shrunk to what lies on it.

That takes no memory, and gives the room back in one call. In a mount namespace of ours (`mount_in_private`) it is seen by our
own processes only, and goes with the last of them, whatever happens to the first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fencepost.errors import FencepostError

_CLONE_NEWNS = 0x00020000
_MOST = "50%"  # of the machine's memory; what is not used is not taken
_TRIES = 20


def is_possible() -> bool:
    """Whether this process may mount: root on Linux, and not in a container that forbids it."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return False
    with contextlib.suppress(OSError):
        probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tempfile.gettempdir()]
        return subprocess.run(probe, check=False, capture_output=True).returncode == 0
    return False


def mount_in_private() -> None:
    """What this thread, and the threads and processes that it starts from now on, mount is seen by nobody else."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise FencepostError(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    _mount("--make-rprivate", "/")


class SmallDisk:
    """Made and mounted at ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True)
        _mount("-t", "tmpfs", "-o", f"size={_MOST},mode=0755", "tmpfs", str(path))

    def fill(self) -> None:
        """Not a block is left. Raises FencepostError if it grows faster than it can be shrunk."""
        for _ in range(_TRIES):
            seen = os.statvfs(self._path)
            used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
            with contextlib.suppress(FencepostError):
                return _mount("-o", f"remount,size={max(used, seen.f_frsize)}", str(self._path))
        raise FencepostError("the disk could not be filled: it grows too fast")

    def empty(self) -> None:
        """There is room again. Twice is once."""
        _mount("-o", f"remount,size={_MOST}", str(self._path))

    def close(self) -> None:
        """Gone with all that lies on it."""
        subprocess.run(["umount", "--lazy", str(self._path)], check=False, capture_output=True)
        self._path.rmdir()


def _mount(*words: str) -> None:
    told = subprocess.run(["mount", *words], check=False, capture_output=True, text=True)
    if told.returncode:
        raise FencepostError(f"mount {' '.join(words)}: {told.stderr.strip()}")
