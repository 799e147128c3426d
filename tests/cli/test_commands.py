"""The rest of the command: finding the database, exit codes, bad input, migrate, queues, status, leader, help."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.shell import environment, fencepost, spawn
from duty.scene import Scene, leading
from fencepost.cli import exits
from fencepost.cli.main import COMMANDS, Session, _end, cli
from fencepost.domain.job import NewJob
from fencepost.errors import UsageError
from fencepost.store import jobs
from pooler import Pooler
from waiting import eventually

PASSWORD = "Tr0ub4dor-and-3"
AWAY = f"postgresql://shop:{PASSWORD}@127.0.0.1:9/shop?connect_timeout=2"


def test_help_is_fast_and_lists_every_command() -> None:
    done = spawn("--help")

    assert done.code == 0
    assert set(COMMANDS) <= set(re.findall(r"^  (\w+)", done.out, re.MULTILINE))
    assert min(_effort("-m", "fencepost", "--help") for _ in range(5)) < 0.15


def _effort(*words: str) -> float:
    """Seconds of CPU that an interpreter takes; the time on the clock is that of a busy machine."""
    child = subprocess.Popen([sys.executable, *words], env=environment(), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_imports_neither_the_driver_nor_a_command() -> None:
    code = (
        "import sys; from fencepost.cli.main import main; main(['--help']); "
        "print([m for m in sys.modules if m.split('.')[0] in ('psycopg', 'pydantic', 'rich') "
        "or m.startswith('fencepost.store')])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def every_command() -> list[tuple[str, ...]]:
    groups = {
        "bench": ("drain", "enqueue", "latency", "backlog", "flow"),
        "jobs": ("list", "show", "retry", "cancel"),
        "queues": ("list", "pause", "resume"),
        "dev": ("stop", "status", "logs", "psql", "dsn", "reset"),
    }
    return [(name,) for name in COMMANDS] + [(group, verb) for group, verbs in groups.items() for verb in verbs]


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_help_has_an_example(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*words, "--help"], obj=Session())

    assert done.exit_code == 0
    assert "Example: fencepost " in done.output or "Example: export " in done.output


def test_the_exit_codes_of_the_docs_are_those_of_the_module() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    written = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}

    assert written == {value for name, value in vars(exits).items() if name.isupper()}


def test_no_database_named_is_one_sentence() -> None:
    done = spawn("status")

    assert done.code == exits.USAGE
    assert done.sentence.startswith("no database is named: give --dsn")


@pytest.mark.parametrize("words", [("status",), ("jobs", "list"), ("queues", "list"), ("migrate",)], ids=" ".join)
@pytest.mark.parametrize("flags", [(), ("--traceback",)], ids=["", "traceback"])
def test_an_unreachable_database_is_one_sentence_without_its_password(
    words: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    done = fencepost(*words, "--dsn", AWAY, *flags)

    assert done.code == exits.FAILED
    assert PASSWORD not in done.out + done.err
    assert "127.0.0.1" in done.err
    assert ("Traceback" in done.err) == bool(flags)


def test_a_dsn_that_cannot_be_read_is_named_and_not_shown() -> None:
    flag = fencepost("status", "--dsn", f"postgres+psycopg://u:{PASSWORD}@h/d")
    variable = fencepost("status", env={"FENCEPOST_DSN": f"nonsense password={PASSWORD} ="})

    empty = fencepost("migrate", "--dsn", "")  # $UNSET: nothing must happen to whatever database is near
    for done, name in ((flag, "--dsn"), (variable, "FENCEPOST_DSN"), (empty, "--dsn")):
        assert done.code == exits.USAGE
        assert name in done.sentence
        assert PASSWORD not in done.err


@pytest.mark.spec("W4")
@pytest.mark.parametrize("words", [("status",), ("jobs", "list"), ("queues", "list")], ids=" ".join)
def test_a_missing_schema_is_code_3_and_says_what_to_do(empty_database: Any, words: tuple[str, ...]) -> None:
    done = fencepost(*words, "--dsn", empty_database.dsn)

    assert done.code == exits.SCHEMA
    assert "fencepost migrate" in done.err
    assert done.sentence


@pytest.mark.spec("W4")
def test_a_leader_without_a_schema_ends_with_one_line_and_code_3(empty_database: Any) -> None:
    done = spawn("leader", "--dsn", empty_database.dsn)

    assert done.code == exits.SCHEMA
    assert "fencepost migrate" in done.sentence


def test_migrate_check_migrate_check(empty_database: Any) -> None:
    env = {"FENCEPOST_DSN": empty_database.dsn}

    before = fencepost("migrate", "--check", env=env)
    made = spawn("migrate", env=env)
    again = fencepost("migrate", "--json", env=env)
    after = fencepost("migrate", "--check", "--json", env=env)

    assert before.code == exits.SCHEMA
    assert made.code == 0, made.err
    assert "up to date" in made.out
    assert isinstance(again.data, dict)
    assert after.data["current"] is True


@pytest.fixture
def pooled(empty_database: Any) -> Iterator[str]:
    """The same database through a transaction pooler."""
    pooler = Pooler(empty_database.dsn)
    yield pooler.dsn
    pooler.close()


@pytest.mark.spec("A1", "A4")
def test_migrate_goes_past_a_transaction_pooler_by_the_direct_dsn(empty_database: Any, pooled: str) -> None:
    env = {"FENCEPOST_DSN": pooled, "FENCEPOST_DIRECT_DSN": empty_database.dsn}

    refused = fencepost("migrate", env={"FENCEPOST_DSN": pooled})
    made = fencepost("migrate", env=env)
    check = fencepost("migrate", "--check", env=env)

    assert "FENCEPOST_DIRECT_DSN" in refused.sentence
    assert (made.code, check.code) == (0, 0), made.err + check.err


def test_the_direct_dsn_of_one_database_is_not_used_for_another(scene: Scene, empty_database: Any, pooled: str) -> None:
    other = {"FENCEPOST_DIRECT_DSN": scene.dsn}

    by_name = fencepost("migrate", "--dsn", pooled, env=other)
    by_variable = fencepost("migrate", "--dsn", empty_database.dsn, env=other | {"FENCEPOST_DSN": pooled})
    same = fencepost("migrate", "--dsn", pooled, env={"FENCEPOST_DIRECT_DSN": empty_database.dsn})

    assert "transaction pooler" in by_name.sentence
    assert (by_variable.code, same.code) == (0, 0), by_variable.err + same.err
    assert fencepost("status", "--dsn", empty_database.dsn).code == 0


def test_migrate_sql_prints_what_psql_can_run_and_touches_nothing() -> None:
    done = fencepost("migrate", "--sql", "--schema", "jobs_here")

    assert done.code == 0
    assert "jobs_here.job " in done.out
    statements = re.sub(r"--.*|'[^']*'", "", done.out)
    assert not re.search(r"\bfencepost\.", statements), "every name is in the schema that was asked for"


def test_migrate_refuses_to_do_both() -> None:
    assert fencepost("migrate", "--sql", "--check").sentence.startswith("--sql and --check exclude each other")


def test_status_as_json(scene: Scene) -> None:
    scene.enqueue(3)
    scene.worker().claim(1, ttl_s=600)

    found = spawn("status", "--json", "--dsn", scene.dsn).data

    status = found["status"]
    assert {(c["state"], c["jobs"]) for c in status["counts"]} == {("queued", 2), ("running", 1)}
    assert status["running"] == 1
    assert status["stale"] == 0
    assert status["leader"] is None
    assert status["workers"] == 1
    assert status["oldest_due_age_s"] >= 0
    assert found["workers"][0]["queues"] == {"default": 1000}


def test_status_for_a_person(scene: Scene) -> None:
    scene.enqueue(3)

    out = fencepost("status", "--dsn", scene.dsn).out

    assert re.search(r"default +queued +queued +3", out)
    assert "none: start a worker or `fencepost leader`" in out


@pytest.mark.spec("A3")
def test_queues_pause_and_resume_with_a_record(scene: Scene) -> None:
    scene.enqueue(2)
    env = {"FENCEPOST_DSN": scene.dsn}

    paused = spawn("queues", "pause", "default", "--reason", "provider is down", "--actor", "ops", env=env)
    listed = fencepost("queues", "list", "--json", env=env).data
    again = fencepost("queues", "pause", "default", "--json", env=env).data
    resumed = fencepost("queues", "resume", "default", "--json", env=env).data

    assert (paused.code, paused.out) == (0, "queue default: paused\n")
    (queue,) = listed
    assert queue["paused"] is True
    assert (queue["paused_by"], queue["paused_reason"]) == ("ops", "provider is down")
    assert queue["ready"] == 2
    assert again["answer"] == "already"
    assert resumed["answer"] == "resumed"


def test_an_unknown_queue_is_a_sentence(scene: Scene) -> None:
    done = fencepost("queues", "pause", "nowhere", "--dsn", scene.dsn)

    assert done.code == exits.FAILED
    assert done.sentence.startswith("there is no queue 'nowhere'")


def test_a_reader_that_goes_away_is_no_error(scene: Scene) -> None:
    scene.enqueue(500)
    command = [sys.executable, "-m", "fencepost", "jobs", "list", "--limit", "500", "--json", "--dsn", scene.dsn]
    child = subprocess.Popen(
        command, env=environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stderr is not None

    child.stdout.close()

    assert child.wait(30) == exits.READER_GONE
    assert child.stderr.read() == ""
    child.stderr.close()


def test_on_a_terminal_rich_draws_the_table(scene: Scene) -> None:
    pytest.importorskip("rich")
    scene.enqueue(1)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "jobs", "list", "--dsn", scene.dsn],
        env=environment(TERM="xterm"), stdout=theirs, stderr=theirs,
    )  # fmt: skip
    assert child.wait(30) == 0
    os.close(theirs)
    text = os.read(ours, 100_000).decode()
    os.close(ours)

    assert "job:0" in text
    assert "─" in text


def test_stored_text_cannot_paint_the_terminal(scene: Scene) -> None:
    scene.wire.run(_enqueue(scene, "job\x1b[31m\nforged"))

    out = fencepost("jobs", "list", "--dsn", scene.dsn).out

    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def _enqueue(scene: Scene, job_id: str) -> Any:
    return jobs.enqueue(scene.sql, [NewJob(task="t", payload="{}", job_id=job_id)])


APP = """
import fencepost
app = fencepost.App({dsn!r})
"""


def test_the_database_of_an_app_is_used_and_the_flag_comes_first(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP.format(dsn=scene.dsn), encoding="utf-8")
    (tmp_path / "away.py").write_text(APP.format(dsn=AWAY), encoding="utf-8")

    by_flag = spawn("status", "--json", "--app", "shop:app", cwd=tmp_path)
    by_variable = spawn("status", "--json", env={"FENCEPOST_APP": "shop:app"}, cwd=tmp_path)
    dsn_first = spawn("status", "--json", "--app", "away:app", "--dsn", scene.dsn, cwd=tmp_path)

    assert by_flag.code == by_variable.code == dsn_first.code == 0


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        ("shop", "must be MODULE:APP"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop:app", "is not a fencepost App"),
        ("shop:other", "has no 'other'"),
        ("../shop:app", "'../shop' is no module's name"),
    ],
)
def test_an_app_that_is_none_is_a_sentence(app: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("app = 1\n", encoding="utf-8")

    done = spawn("status", "--app", app, cwd=tmp_path)

    assert done.code == exits.USAGE
    assert sentence in done.sentence


@pytest.mark.spec("A1")
@pytest.mark.parametrize("words", [("status",), ("migrate", "--check"), ("migrate",)], ids=" ".join)
def test_a_module_that_ends_the_program_is_wrong_use_and_no_success(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "over.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")

    done = spawn(*words, "--app", "over:app", cwd=tmp_path)

    assert done.code == exits.USAGE
    assert "'over:app' cannot be imported: its module ends the program" in done.sentence


IN_JOBS = """
import fencepost
app = fencepost.App({dsn!r}, schema="jobs")
"""


@pytest.mark.spec("A1")
def test_commands_look_at_the_schema_of_the_app_wherever_the_database_is(empty_database: Any, tmp_path: Path) -> None:
    dsn = empty_database.dsn
    (tmp_path / "shop.py").write_text(IN_JOBS.format(dsn=AWAY), encoding="utf-8")
    (tmp_path / "nowhere.py").write_text(IN_JOBS.format(dsn=None), encoding="utf-8")

    def checked(*words: str, **env: str) -> Any:
        done = spawn("migrate", "--check", "--json", *words, cwd=tmp_path, env=env)
        return json.loads(done.out)["schema"], done.code

    made = spawn("migrate", "--app", "shop:app", "--dsn", dsn, cwd=tmp_path)

    assert (made.code, "schema jobs is up to date" in made.out) == (0, True), made.err
    assert checked(FENCEPOST_APP="shop:app", FENCEPOST_DSN=dsn) == ("jobs", 0)
    assert checked("--dsn", dsn, FENCEPOST_APP="shop:app") == ("jobs", 0)
    assert checked("--app", "nowhere:app", FENCEPOST_DSN=dsn) == ("jobs", 0)
    assert checked("--schema", "other", FENCEPOST_APP="shop:app", FENCEPOST_DSN=dsn) == ("other", exits.SCHEMA)
    assert checked(FENCEPOST_APP="gone:app", FENCEPOST_SCHEMA="jobs", FENCEPOST_DSN=dsn) == ("jobs", 0)
    assert spawn("migrate", "--sql", "--json", "--app", "shop:app", cwd=tmp_path).data["schema"] == "jobs"


@pytest.mark.spec("A1")
@pytest.mark.parametrize("words", [(), ("jobs",), ("queues",)], ids=["bare", "jobs", "queues"])
def test_help_without_being_asked_is_readable(words: tuple[str, ...]) -> None:
    done = fencepost(*words)

    assert done.code == exits.USAGE
    assert done.err.startswith("Usage: fencepost")
    assert len(done.err.splitlines()) > 5


@pytest.mark.spec("A1")
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(scene: Scene, closed: str) -> None:
    good = f"{sys.executable} -m fencepost status --dsn {shlex.quote(scene.dsn)} {closed}"
    bad = f"{sys.executable} -m fencepost status --dsn nonsense {closed}"

    done, failed = (
        subprocess.run(["sh", "-c", line], env=environment(), capture_output=True, text=True, check=False)
        for line in (good, bad)
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert failed.returncode == exits.USAGE
    assert "Traceback" not in failed.stderr


@pytest.mark.spec("A1")
@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_command_takes_json(words: tuple[str, ...]) -> None:
    if words in {("dev", "psql"), ("jobs",), ("queues",)}:
        return  # another program's output; groups
    done = CliRunner().invoke(cli, [*words, "--help"], obj=Session())

    assert "--json" in done.output


def test_a_leaders_interval_of_nothing_is_refused(scene: Scene) -> None:
    done = fencepost("leader", "--heartbeat-interval", "0", "--dsn", scene.dsn)

    assert done.code == exits.USAGE
    assert "heartbeat_interval must be more than 0 seconds" in done.sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no app is named"),
        (("shop",), "the app must be MODULE:APP"),
        (("a:b", "--queue", ":3"), "names no queue"),
        (("a:b", "--queue", "x:none"), "the slots must be a whole number"),
        (("a:b", "--queue", "x", "--queue", "x:2"), "is named twice"),
        (("a:b", "--heartbeat-ttl", "often"), "--heartbeat-ttl"),
        (("a:b", "--heartbeat-ttl", "8", "--heartbeat-interval", "5"), "heartbeat_ttl"),
        (("a:b", "--slots", "0"), "slots"),
        (("a:b", "--log-level", "LOUD"), "log level 'LOUD' is unknown"),
        (("a:b", "--on-outage", "panic"), "'panic' is not one of"),
        (("a:b", "--dsn", "nonsense ="), "--dsn"),
        (("a:b", "--dsn", ""), "--dsn is empty"),
    ],
)
def test_worker_options_that_cannot_work_are_refused_before_anything_starts(
    words: tuple[str, ...], sentence: str
) -> None:
    done = fencepost("worker", *words)

    assert done.code == exits.USAGE
    assert sentence in done.sentence


def test_the_leader_command_leads_logs_json_and_resigns(scene: Scene) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "leader", "--dsn", scene.dsn, "--log-json"],
        env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        eventually(lambda: scene.leader_row()[2], within=15)

        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=10)
    finally:
        child.kill()

    assert child.returncode == 0
    assert not scene.leader_row()[2]
    messages = [json.loads(line)["message"] for line in err.splitlines()]
    assert messages == ["this process leads now (epoch 1)", "resigned as leader (epoch 1)"]


def test_ctrl_c_of_a_command_is_130() -> None:
    assert _end(KeyboardInterrupt(), Session()) == exits.INTERRUPTED


def test_an_unexpected_error_is_one_redacted_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code = _end(RuntimeError(f"cannot reach postgresql://u:{PASSWORD}@h/d"), Session())

    err = capsys.readouterr().err
    assert code == exits.FAILED
    assert err.startswith("fencepost: unexpected RuntimeError: cannot reach postgresql://u:")
    assert PASSWORD not in err
    assert len(err.splitlines()) == 1


def test_a_sentence_of_ours_is_redacted_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code = _end(UsageError(f"dsn postgresql://u:{PASSWORD}@h/d is wrong"), Session())

    assert code == exits.USAGE
    assert PASSWORD not in capsys.readouterr().err


def test_status_names_the_leader(scene: Scene) -> None:
    with leading(scene) as leader:
        eventually(lambda: scene.leader_row()[2])

        found = fencepost("status", "--json", "--dsn", scene.dsn).data["status"]["leader"]
        told = fencepost("status", "--dsn", scene.dsn).out

    assert (found["token"], found["epoch"], found["alive"]) == (leader.token, 1, True)
    assert re.search(r"leader +token \d+, epoch 1, since", told)
