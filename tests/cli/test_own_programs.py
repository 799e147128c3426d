"""Commands that start workers and servers of their own end them too, however they are told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processtable import of_folder
from waiting import eventually


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("demo", "--rows", "2000"), signal.SIGTERM),
        (("demo", "--rows", "2000"), signal.SIGHUP),
        (("torture", "--seconds", "60"), signal.SIGTERM),
    ],
    ids=["demo TERM", "demo HUP", "torture TERM"],
)
def test_who_is_told_to_end_leaves_nobody_behind(
    words: tuple[str, ...], number: signal.Signals, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", *words, "--folder", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: any("fencepost.worker.child" in one for one in of_folder(folder).values()), within=60)

        process.send_signal(number)

        assert process.wait(60) == 130
        eventually(lambda: not of_folder(folder), within=30)
    finally:
        process.kill()
        process.wait()
