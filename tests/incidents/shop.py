"""A shop in production: workers started by the command line, a provider beside them, and what a person at a shell sees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.shell import environment, fencepost
from incidents.provider import Provider
from servers import Database
from waiting import eventually
from worker.scene import SLOW, Scene, Worker

APPS = Path(__file__).parent / "apps"

QUICK = {"heartbeat-interval": "500ms", "heartbeat-ttl": "5s", "poll-interval": "100ms", "shutdown-timeout": "30s"}
"""The defaults divided by about ten, as for all tests with real workers; but a stop waits long for a slow machine."""


class Shop(Scene):
    """A `Scene` whose workers are those of ``fencepost worker``."""

    def __init__(self, database: Database, provider: Provider) -> None:
        super().__init__(database)
        self.provider = provider

    def environment(self) -> dict[str, str]:
        """Of each worker; nothing of ours but the paths."""
        told = {name: value for name, value in super().environment().items() if name.startswith(("SCENE_", "PYTHONP"))}
        return environment(**told, FENCEPOST_DSN=self.database.dsn, SHOP_PROVIDER=self.provider.url)

    def start(self, app: str = "shop_app:app", *flags: str, **options: str) -> CommandWorker:
        """``fencepost worker APP``, with `QUICK` options and these."""
        settings = QUICK | {name.replace("_", "-"): value for name, value in options.items()}
        made = CommandWorker(self, [app, *flags, *(f"--{name}={value}" for name, value in settings.items())])
        self.workers.append(made)
        return made

    def open(self, gate: str) -> None:
        """Let the bodies go on that wait at this gate."""
        (self.folder / f"gate {gate}").touch()

    def ask(self, *words: str) -> Any:
        """What ``fencepost WORDS --json`` prints."""
        return fencepost(*words, "--json", env={"FENCEPOST_DSN": self.database.dsn}).data

    def runs_of(self, job_id: str) -> list[dict[str, Any]]:
        """Each run, also the last, as ``fencepost jobs show`` tells it."""
        return list(self.ask("jobs", "show", job_id)["runs"])

    def counts(self) -> Mapping[str, int]:
        """How many jobs are in each state."""
        return dict(self.rows("SELECT state, count(*) FROM fencepost.jobs GROUP BY state"))

    def wait_counts(self, within: float = 2 * SLOW, **wanted: int) -> None:
        """Until just so many jobs are in these states, and none in others."""

        def there() -> bool:
            self.check()
            return self.counts() == wanted

        try:
            eventually(there, within=within, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{self.counts()} instead of {wanted}\n{self.logged()[-6000:]}") from error

    def assert_sound(self) -> None:
        """Each job is in one place, and none was put aside."""
        assert self.rows("SELECT * FROM fencepost.fsck") == []
        assert self.rows("SELECT * FROM fencepost.quarantine") == []


class CommandWorker(Worker):
    """One ``fencepost worker``."""

    def __init__(self, shop: Shop, words: list[str]) -> None:
        self.scene, self.may_end = shop, False
        self.log = shop.folder / f"log{len(shop.workers)}"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fencepost", "worker", *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=APPS,
                env=shop.environment(),
            )
        self.pid = self.process.pid

    def lose_machine(self) -> None:
        """SIGKILL to all its processes at once: nobody is left who could tell."""
        self.may_end = True
        self.kill_all()

    def tokens(self) -> set[int]:
        """By which its processes are known in the database."""
        pids = [*self.children()]
        return {token for token, pid in self.scene.rows("SELECT token, pid FROM fencepost.worker") if pid in pids}
