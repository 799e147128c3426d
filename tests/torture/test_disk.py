"""The disk under a torture's servers: it can be full, and nothing of it is left, whatever happens to the torture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.testing.torture import disk
from fencepost.testing.torture.ground import OwnGround
from fencepost.testing.torture.nemesis import choose

PROGRAM = """
import os, sys
from pathlib import Path
from fencepost.testing.torture.disk import SmallDisk, mount_in_private

folder = Path(sys.argv[1])
mount_in_private()
small = SmallDisk(folder)
(folder / "before").write_bytes(b"x" * 300_000)
small.fill()
try:
    (folder / "more").write_bytes(b"x" * 300_000)
except OSError as error:
    print("full:", error.strerror)
(folder / "more").unlink()
small.empty()
(folder / "more").write_bytes(b"x" * 300_000)
print("room again:", sorted(file.name for file in folder.iterdir()), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
small.close()
print("closed:", folder.exists())
"""
FULL = "full: No space left on device\nroom again: ['before', 'more']\n"

needs_mounts = pytest.mark.skipif(not disk.is_possible(), reason="no file system can be mounted here")


@needs_mounts
@pytest.mark.parametrize(("how", "last"), [("closed", "closed: False\n"), ("killed", "")])
def test_it_can_be_full_and_is_seen_by_nobody_else(tmp_path: Path, how: str, last: str) -> None:
    folder = tmp_path / "disk"

    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), how], capture_output=True, text=True, check=False, timeout=60
    )

    assert told.stdout == FULL + last, told.stderr
    assert not folder.exists() or list(folder.iterdir()) == []
    assert str(folder) not in Path("/proc/mounts").read_text()


def test_the_fault_is_offered_only_where_the_disk_can_be_ours(tmp_path: Path) -> None:
    ground = OwnGround(tmp_path)
    for possible in (False, True):
        ground.has_disk = possible
        assert ("disk-full" in [kind.name for kind in choose((), ground)]) is possible
