"""Under whose account the server runs. PostgreSQL refuses to run as root, so root needs a way around that."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fencepost.embedded.binaries import tool_environment
from fencepost.errors import EmbeddedServerError

_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_FALLBACK_ACCOUNT = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """How to start PostgreSQL's programs: words before the command, and who owns the files (None: we do)."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def own(self, *paths: Path) -> None:
        """Give files of ours to the account, when it is another one."""
        if self.uid is not None and self.gid is not None:
            for path in paths:
                os.chown(path, self.uid, self.gid)


def choose(root: Path, data: Path) -> Account:
    """Pick the account for the server of ``root``.

    An ordinary user runs it directly. Root runs it in a user namespace, where it is an unprivileged user whose files
    stay root's: no account is made and nothing is chowned. Where namespaces are forbidden (many containers), it runs as
    ``nobody``. A data folder that already belongs to somebody keeps its owner.

    Raises:
        EmbeddedServerError: the data folder is another user's, or root has no way left.
    """
    owner = data.stat().st_uid if data.exists() else os.geteuid()
    if os.geteuid() != 0:
        if owner != os.geteuid():
            raise EmbeddedServerError(
                f"The server's folder {data} belongs to another account ({_name(owner)}): use that one."
            )
        return Account()
    if owner != 0:
        return _switched(owner)
    if _works(*_NAMESPACE, "true"):
        return Account(prefix=_NAMESPACE)
    if data.exists():
        raise EmbeddedServerError(
            f"PostgreSQL does not run as root, user namespaces are forbidden here, and {data} belongs to root: "
            "remove the folder or start as an ordinary user."
        )
    return _reaching(root)


def _reaching(root: Path) -> Account:
    """The fallback account, once it is clear that it can reach the folder."""
    account = _switched(_uid_of(_FALLBACK_ACCOUNT))
    if not _works(*account.prefix, "test", "-x", str(root.parent)):
        raise EmbeddedServerError(
            f"PostgreSQL does not run as root, user namespaces are forbidden here, and the account {_FALLBACK_ACCOUNT} "
            f"cannot reach {root}: start as an ordinary user, or choose a folder that every account can reach."
        )
    return account


def _switched(uid: int) -> Account:
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        gid = uid
    # a change of account clears the parent-death signal (prctl(2)), so setpriv sets it again
    words = ("setpriv", "--pdeathsig=INT", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--")
    return Account(prefix=words, uid=uid, gid=gid)


def _uid_of(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise EmbeddedServerError(
            f"PostgreSQL does not run as root, and there is no account {name!r} to run it: start as an ordinary user."
        ) from None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _works(*command: str) -> bool:
    try:
        tried = subprocess.run(command, capture_output=True, timeout=20, env=tool_environment(), check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0
