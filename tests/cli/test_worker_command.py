"""``fencepost worker`` from a shell: it runs jobs, logs them, leads, stops, and says what is wrong at its start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from cli.shell import environment, fencepost, spawn
from duty.scene import Scene
from fencepost.cli import exits
from waiting import eventually

SECRET = "live-Secret-0815"

APP = """
import logging, os
import fencepost

app = fencepost.App.from_env()
log = logging.getLogger("shop")

@app.task("greet")
def greet(name: str) -> str:
    log.info("hello %s, %s", name, os.environ["SHOP_API_KEY"])
    return name

@app.task("fall", retry=fencepost.RetryPolicy(max_attempts=1))
async def fall() -> None:
    raise ValueError(os.environ["SHOP_API_KEY"])
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project's folder with its app."""
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    return tmp_path


@contextmanager
def running(shop: Path, scene: Scene, *flags: str) -> Iterator[subprocess.Popen[str]]:
    with (shop / "log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "fencepost", "worker", "shop:app", *flags],
            cwd=shop,
            env=environment(FENCEPOST_DSN=scene.dsn, SHOP_API_KEY=SECRET),
            stderr=log,
            text=True,
        )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def enqueue(scene: Scene, task: str, payload: str, job_id: str) -> None:
    scene.ask("select fencepost.enqueue(%s, %s::jsonb, %s)", task, payload, job_id)


def stopped(child: subprocess.Popen[str], shop: Path) -> list[dict[str, Any]]:
    """Stop it as systemd does; what it logged."""
    child.send_signal(signal.SIGTERM)
    eventually(lambda: child.poll() is not None, within=30)
    log = (shop / "log").read_text(encoding="utf-8")
    assert child.returncode == 0, log
    return [json.loads(line) for line in log.splitlines()]


@pytest.mark.spec("A1", "O4", "K1")
def test_a_worker_runs_jobs_logs_them_redacted_and_stops_with_0(shop: Path, scene: Scene) -> None:
    enqueue(scene, "greet", '{"name": "Ada"}', "greet:1")
    enqueue(scene, "fall", "{}", "fall:1")

    with running(shop, scene, "--log-json", "--slots", "2") as child:
        eventually(lambda: scene.states() == {"greet:1": "succeeded", "fall:1": "failed"}, within=20)
        eventually(lambda: scene.leader_row()[2], within=5)
        entries = stopped(child, shop)

    (hello,) = [entry for entry in entries if entry["message"].startswith("hello Ada")]
    assert (hello["job_id"], hello["task"], hello["attempt"], hello["run"]) == ("greet:1", "greet", 1, 1)
    assert SECRET not in json.dumps(entries)
    assert SECRET not in str(fencepost("jobs", "show", "fall:1", "--json", "--dsn", scene.dsn).data)
    assert not scene.leader_row()[2], "the leader in the supervisor resigned"


def test_a_worker_told_so_never_stands_for_leader(shop: Path, scene: Scene) -> None:
    enqueue(scene, "greet", '{"name": "Bo"}', "greet:2")

    with running(shop, scene, "--no-leader", "--log-json") as child:
        eventually(lambda: scene.states() == {"greet:2": "succeeded"}, within=20)
        stopped(child, shop)

    assert scene.leader_row() == (0, 0, False)


@pytest.mark.spec("W4")
def test_a_worker_without_a_schema_ends_with_one_line_and_code_3(shop: Path, empty_database: Any) -> None:
    done = spawn("worker", "shop:app", cwd=shop, env={"FENCEPOST_DSN": empty_database.dsn, "SHOP_API_KEY": SECRET})

    assert done.code == exits.SCHEMA
    assert "fencepost migrate" in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("app", "sentence"), [("nowhere:app", "there is no module 'nowhere'"), ("shop:nothing", "has no 'nothing'")]
)
def test_a_worker_without_its_app_ends_with_one_line_and_code_2(
    shop: Path, scene: Scene, app: str, sentence: str
) -> None:
    done = spawn("worker", app, cwd=shop, env={"FENCEPOST_DSN": scene.dsn, "SHOP_API_KEY": SECRET})

    assert done.code == exits.USAGE
    assert sentence in done.err.splitlines()[-1]


@pytest.mark.spec("W1")
def test_flags_come_before_variables_and_variables_before_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.cli.worker import settings_of
    from fencepost.config import from_env

    env = from_env(
        {
            "FENCEPOST_QUEUES": "mail=8,reports",
            "FENCEPOST_PROCESSES": "3",
            "FENCEPOST_POLL_INTERVAL": "2s",
            "FENCEPOST_NOTIFY": "no",
        }
    ).worker
    flags: dict[str, Any] = {"queues": (), "processes": 2, "poll_interval": None, "notify": None}

    settings = settings_of(flags, env)

    assert dict(settings.queues) == {"mail": 8, "reports": 1}
    assert (settings.processes, settings.poll_interval, settings.notify) == (2, 2.0, False)
    assert settings.heartbeat_interval == 5.0
    assert dict(settings_of({"queues": ("a:3", "b"), "slots": 4}, env).queues) == {"a": 3, "b": 4}


@pytest.mark.spec("W1")
def test_every_worker_option_is_a_flag_and_a_variable() -> None:
    from fencepost.cli.worker import worker
    from fencepost.config import WORKER_OPTIONS
    from fencepost.worker.settings import WorkerSettings

    options = set(WorkerSettings.__dataclass_fields__) | {"slots"}
    flags = {parameter.name for parameter in worker.params}
    shown = " ".join(getattr(parameter, "help", "") or "" for parameter in worker.params)

    assert options <= flags
    assert options == set(WORKER_OPTIONS)
    assert all(f"FENCEPOST_{option.upper()}" in shown for option in options)


PLUM = "zwickau77plum"

LOGIN = """
import fencepost

app = fencepost.App()

@app.task("login", retry=fencepost.RetryPolicy(max_attempts=1))
async def login() -> None:
    raise RuntimeError("login refused for zwickau77" + "plum")
"""


@pytest.mark.spec("K1")
def test_the_password_of_the_flag_is_neither_stored_nor_logged(shop: Path, scene: Scene) -> None:
    (shop / "shop.py").write_text(LOGIN, encoding="utf-8")
    enqueue(scene, "login", "{}", "login:1")
    dsn = make_conninfo(scene.dsn, password=PLUM)

    with running(shop, scene, "--log-json", "--dsn", dsn) as child:
        eventually(lambda: scene.states() == {"login:1": "failed"}, within=30)
        entries = stopped(child, shop)

    (error,) = scene.ask("select error from fencepost.outcome")[0]
    assert "login refused for [redacted]" in error
    assert PLUM not in json.dumps(entries)


@pytest.mark.spec("K1")
def test_an_app_that_cannot_be_imported_tells_no_secret(shop: Path, scene: Scene) -> None:
    (shop / "shop.py").write_text("import os\nraise RuntimeError('no vault for ' + os.environ['VAULT_TOKEN'])\n")

    env = {"FENCEPOST_DSN": scene.dsn, "VAULT_TOKEN": PLUM, "FENCEPOST_TRACEBACK": "1"}
    done = spawn("worker", "shop:app", cwd=shop, env=env)

    assert done.code == exits.USAGE
    assert done.err.count("no vault for [redacted]") >= 2
    assert PLUM not in done.err


@pytest.mark.spec("W4")
def test_a_worker_says_at_once_that_the_database_is_away(shop: Path) -> None:
    away = "postgresql://127.0.0.1:9/shop?connect_timeout=2"
    with (shop / "log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "fencepost", "worker", "shop:app", "--dsn", away],
            cwd=shop, env=environment(FENCEPOST_DSN=away), stderr=log,
        )  # fmt: skip
    try:
        eventually(lambda: "the database is away" in (shop / "log").read_text(), within=15)
        assert child.poll() is None
        assert (shop / "log").read_text().count("the database is away") == 1
    finally:
        child.kill()
        child.wait()
