"""Where the files of an embedded server lie.

    ROOT/            0700, with a .gitignore of its own
      data/          PostgreSQL's data folder
      s/             the socket, 0700
      log            what the server says
      start.lock     held while somebody starts, stops or resets it
      use.lock       held shared by every user; the reference count
      sup.lock       held by the guardian
      init-*/        where initdb works; becomes data/ by one rename, so that data/ is whole or not there
      socket         which socket folder was chosen
      keep           exists when the server shall outlive its users

The socket lies elsewhere when its path would be too long for one, or has a comma in it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.embedded import guardian
from fencepost.embedded.account import Account
from fencepost.errors import EmbeddedServerError

PORT = 5432  # only a part of the socket's name: nothing listens on TCP
PART = "init-"
_SOCKET_NAME = f".s.PGSQL.{PORT}"
_OWN_NAMES = {".gitignore", "start.lock", guardian.USE_LOCK, guardian.LOG}  # what a starter beside us may have made
_SOCKET_LIMIT = 100  # bytes; sockaddr_un holds 107 on Linux and 103 on macOS


@dataclass(frozen=True, slots=True)
class Layout:
    """The names below one root folder."""

    root: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's own folder."""
        return self.root / guardian.DATA

    @property
    def log(self) -> Path:
        """What the server and the guardian say."""
        return self.root / guardian.LOG

    @property
    def keep(self) -> Path:
        """Exists when the server shall outlive its users."""
        return self.root / guardian.KEEP

    @property
    def start_lock(self) -> Path:
        """Held by whoever starts, stops or resets the server."""
        return self.root / "start.lock"

    @property
    def use_lock(self) -> Path:
        """Held shared by every user."""
        return self.root / guardian.USE_LOCK

    @property
    def chosen_socket(self) -> Path:
        """The file that names the socket folder, so that programs with another TMPDIR find the same one."""
        return self.root / "socket"

    def made_by(self) -> int | None:
        """The major version that made the data folder; None without one."""
        try:
            return int((self.data / "PG_VERSION").read_text().strip())
        except (OSError, ValueError):
            return None

    def is_foreign(self) -> bool:
        """Does ``data`` hold files, and yet is no data folder of PostgreSQL? Not ours to remove."""
        return self.made_by() is None and self.data.is_dir() and any(self.data.iterdir())

    def half_made(self) -> Iterator[Path]:
        """What an initdb that was killed, or a reset, has left."""
        return self.root.glob(f"{PART}*")

    def prepare(self) -> None:
        """Create the root folder, for us alone and ignored by git.

        Raises:
            EmbeddedServerError: it cannot be created, or it holds somebody else's files.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            names = {path.name for path in self.root.iterdir()}
            if self.start_lock.name not in names and names - _OWN_NAMES:
                raise EmbeddedServerError(
                    f"The folder {self.root} is not empty and holds no embedded server: choose another folder."
                )
            self.root.chmod(0o700)
            self.start_lock.touch(mode=0o600)
            (self.root / ".gitignore").write_text("*\n")
        except OSError as error:
            raise EmbeddedServerError(f"The server's folder {self.root} cannot be used: {error.strerror}.") from error

    def socket_folder(self) -> Path:
        """The folder of the socket: as recorded, else as it would be chosen now."""
        try:
            return Path(os.fsdecode(self.chosen_socket.read_bytes()))
        except OSError:
            return self._socket_choice()

    def socket(self) -> Path:
        """The socket itself."""
        return self.socket_folder() / _SOCKET_NAME

    def prepare_socket_folder(self, account: Account) -> Path:
        """Choose, create and record the socket folder; called with ``start.lock`` held while no server runs.

        Raises:
            EmbeddedServerError: the folder exists and others could put a socket of theirs into it.
        """
        folder = self._socket_choice()
        folder.mkdir(mode=0o700, exist_ok=True)
        account.own(folder)
        found = folder.lstat()
        owner = os.geteuid() if account.uid is None else account.uid
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
            raise EmbeddedServerError(f"The socket folder {folder} is not private to this account: remove it.")
        self.chosen_socket.write_bytes(os.fsencode(folder))
        return folder

    def _socket_choice(self) -> Path:
        beside = self.root / "s"
        if _fits(beside):
            return beside
        name = f"fencepost-{os.geteuid()}-{hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]}"
        temporary = Path(tempfile.gettempdir()) / name
        return temporary if _fits(temporary) else Path("/tmp") / name  # noqa: S108 - checked to be ours and private


def _fits(folder: Path) -> bool:
    """Can a socket lie there? Its name is limited, and in a connection string a comma separates hosts (libpq)."""
    return "," not in str(folder) and len(os.fsencode(folder / _SOCKET_NAME)) <= _SOCKET_LIMIT
