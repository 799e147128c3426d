"""The house: which room may know which, and what no file may contain."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from house.tree import TOP, code_lines, texts

CONTRACT = re.compile(r"^- ([A-Z]\d+) ", re.MULTILINE)
CITED = re.compile(r"mark\.spec\(([^)]*)\)")
MACHINE = re.compile(r"(?<![\w./-])/(?:work|root|mnt|home/(?!linuxbrew)\w+|Users)/|/tmp/[a-z]+[0-9]{3,}")
REGISTRY = re.compile(
    r"(?:index-url|registry)[ =:]+\S?https?://|https?://[^\s\"']+/simple\b|python[h]osted", re.IGNORECASE
)
SLASH, SCHEME = "/", "https://"
NAMELESS = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}


@pytest.mark.skipif(not (TOP / "pyproject.toml").exists(), reason="only in a clone")
def test_imports_go_down_only() -> None:
    tool = Path(sys.executable).parent / "lint-imports"

    told = subprocess.run([tool, "--no-cache"], cwd=TOP, capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stdout + told.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", told.stdout)


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE.search(line) or REGISTRY.search(line)
    ]

    assert found == []


@pytest.mark.parametrize(  # put together here, so that this file passes its own test
    "line",
    [
        f"cp {SLASH}work/x .",
        f"see {SLASH}root/x",
        f"in {SLASH}tmp/abc1234",
        f"{SLASH}home{SLASH}me/x",
        f"registry={SCHEME}x",
    ],
)
def test_the_search_for_machines_finds_them(line: str) -> None:
    assert MACHINE.search(line) or REGISTRY.search(line)


@pytest.mark.parametrize(
    "line", ["/home/linuxbrew/.linuxbrew/opt", "docs/work/x", "/tmp/name", "https://docs.python.org"]
)
def test_the_search_for_machines_finds_nothing_else(line: str) -> None:
    assert not MACHINE.search(line)
    assert not REGISTRY.search(line)


def test_modules_are_short_and_named_after_something() -> None:
    modules = texts("src/", ".py")
    long = {name: code_lines(text) for name, text in modules.items() if code_lines(text) > 450}
    nameless = [name for name in modules if set(Path(name).with_suffix("").parts) & NAMELESS]

    assert modules
    assert long == {}
    assert nameless == []


def test_every_package_says_what_it_is() -> None:
    packages = {str(Path(name).parent) for name in texts("src/fencepost/", ".py")}

    missing = [
        name for name in packages if not texts(f"{name}/__init__.py").get(f"{name}/__init__.py", "").startswith('"""')
    ]

    assert missing == []


def test_nothing_is_left_to_do() -> None:
    unfinished = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")

    found = [name for name, text in texts("src/").items() if unfinished.search(text)]

    assert found == []


def test_only_config_reads_the_environment() -> None:
    """Two pass it on to programs that they start, cleaned or marked; bench, demo and torture are programs of their own."""
    allowed = {
        "src/fencepost/config.py",
        "src/fencepost/embedded/binaries.py",
        "src/fencepost/worker/supervisor/strays.py",
    }

    found = {
        name for name, text in texts("src/fencepost/", ".py").items() if re.search(r"os\.environ|os\.getenv", text)
    }

    programs = tuple(f"src/fencepost/{name}/" for name in ("bench", "demo", "testing"))
    assert {name for name in found if not name.startswith(programs)} <= allowed


def test_tests_wait_for_conditions_instead_of_sleeping() -> None:
    """A handler under test may sleep: that is its work. A test may not."""
    found = [
        f"{name}:{line}"
        for name, text in texts("tests/", ".py").items()
        if name != "tests/waiting.py"
        for line in sleeps_of_tests(text)
    ]

    assert found == []


def sleeps_of_tests(text: str) -> list[int]:
    """The lines on which a test itself sleeps, not a function inside it."""
    found: list[int] = []

    def look(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(child, ast.Call) and ast.unparse(child.func) in {"time.sleep", "asyncio.sleep", "sleep"}:
                found.append(child.lineno)
            look(child)

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            look(node)
    return found


def test_the_search_for_sleeps_finds_those_of_tests() -> None:
    assert sleeps_of_tests("def test_x():\n    for _ in y:\n        time.sleep(1)\n") == [3]
    assert sleeps_of_tests("def test_x():\n    async def job(): await asyncio.sleep(1)\n") == []


def contract_lines() -> list[str]:
    return CONTRACT.findall(texts("docs/contract.md")["docs/contract.md"])


def cited_lines() -> dict[str, list[str]]:
    """Which contract lines the tests cite, and where."""
    cited: dict[str, list[str]] = {}
    for name, text in texts("tests/", ".py").items():
        for mark in CITED.finditer(text):
            for line in re.findall(r"[\"']([^\"']+)[\"']", mark.group(1)):
                cited.setdefault(line, []).append(name)
    return cited


def test_every_cited_line_of_the_contract_exists() -> None:
    unknown = {line: where for line, where in cited_lines().items() if line not in contract_lines()}

    assert len(contract_lines()) == len(set(contract_lines()))
    assert unknown == {}
