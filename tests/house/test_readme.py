"""What the README shows works as it is written there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.server import EmbeddedServer
from house.tree import TOP
from waiting import eventually


@pytest.fixture
def shop() -> Iterator[Path]:
    """A folder with the README's example as shop.py."""
    code = re.findall(r"```python\n(.*?)```", (TOP / "README.md").read_text(), re.DOTALL)[0]
    with tempfile.TemporaryDirectory(prefix="fpr-", ignore_cleanup_errors=True) as name:
        (Path(name) / "shop.py").write_text(code)
        yield Path(name)
        EmbeddedServer(Path(name) / ".fencepost").stop()


def test_the_example_enqueues_once_and_a_worker_runs_it(shop: Path) -> None:
    said = [
        subprocess.run([sys.executable, "shop.py"], cwd=shop, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said == ["created receipt:7\n", "exists receipt:7\n"]

    output = shop / "output"
    with output.open("w") as stream:
        worker = subprocess.Popen(
            [sys.executable, "-m", "fencepost", "worker", "shop:app"], cwd=shop, stdout=stream, stderr=stream
        )
    try:
        eventually(lambda: "receipt for order 7, attempt 1, fp_" in output.read_text(), within=40)
    finally:
        os.kill(worker.pid, signal.SIGTERM)
        code = worker.wait(30)

    assert code == 0, output.read_text()


def test_every_page_that_the_documentation_links_to_exists() -> None:
    for page in [
        TOP / "README.md",
        TOP / "CONTRIBUTING.md",
        TOP / "CHANGELOG.md",
        *sorted((TOP / "docs").glob("*.md")),
    ]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_make_target_that_the_documentation_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(), re.MULTILINE))

    for page in ("README.md", "CONTRIBUTING.md"):
        assert set(re.findall(r"^make ([a-z-]+)", (TOP / page).read_text(), re.MULTILINE)) <= targets
