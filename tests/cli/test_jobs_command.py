"""``fencepost jobs``: list, show, retry, cancel, on a real database."""

from __future__ import annotations

import getpass
import socket

import pytest

from cli.shell import Ended, fencepost, spawn
from duty.scene import Scene
from fencepost.domain.outcome import Settlement
from fencepost.store import jobs

SECRET_ERROR = "refused"


def run(scene: Scene, *words: str) -> Ended:
    return fencepost("jobs", *words, env={"FENCEPOST_DSN": scene.dsn})


@pytest.fixture
def failed(scene: Scene) -> Scene:
    """Three jobs that failed with an error, and one that waits."""
    scene.enqueue(3, prefix="bad", tags=("eu",))
    worker = scene.worker()
    worker.claim()
    end = Settlement(act="fail", code="PROVIDER_5XX", error=f"503 {SECRET_ERROR}\nTraceback line")
    scene.wire.run(jobs.settle(scene.sql, [(fence, end) for fence in worker.fences]))
    scene.enqueue(1, prefix="waits")
    return scene


@pytest.mark.spec("A1")
def test_each_verb_works_from_a_shell(failed: Scene) -> None:
    env = {"FENCEPOST_DSN": failed.dsn}

    listed = spawn("jobs", "list", "--json", env=env)
    shown = spawn("jobs", "show", "bad:0", env=env)
    retried = spawn("jobs", "retry", "bad:0", "--reason", "back", env=env)
    cancelled = spawn("jobs", "cancel", "bad:0", env=env)

    assert len(listed.data) == 4
    assert "PROVIDER_5XX" in shown.out
    assert retried.out == "job bad:0: queued again\n"
    assert cancelled.out == "job bad:0: cancelled\n"
    assert [done.code for done in (shown, retried, cancelled)] == [0, 0, 0]


@pytest.mark.spec("A1")
def test_list_as_json_has_the_contract_columns(failed: Scene) -> None:
    found = run(failed, "list", "--json").data

    assert len(found) == 4
    job = next(job for job in found if job["job_id"] == "bad:0")
    assert job["state"] == "failed"
    assert job["last_error_code"] == "PROVIDER_5XX"
    assert job["attempts"] == 1
    assert job["tags"] == ["eu"]
    assert job["created_at"].endswith("Z")
    assert {"id", "task", "queue", "label", "run_count", "heartbeat_at", "next_retry_at", "finished_at"} <= set(job)


def test_list_for_a_person_is_a_table_that_filters(failed: Scene) -> None:
    out = run(failed, "list", "--state", "failed", "--tag", "eu", "--limit", "2").out.splitlines()

    assert out[0].split() == ["id", "job", "task", "queue", "state", "attempts", "error", "created"]
    assert len(out) == 3
    assert all("PROVIDER_5XX" in line and "failed" in line for line in out[1:])


def test_list_pages_on_by_id(failed: Scene) -> None:
    first = run(failed, "list", "--limit", "2", "--json").data
    second = run(failed, "list", "--limit", "2", "--before", str(first[-1]["id"]), "--json").data

    assert len({job["job_id"] for job in first + second}) == 4


def test_list_of_nothing_says_so(scene: Scene) -> None:
    assert run(scene, "list").out == "no job fits\n"
    assert run(scene, "list", "--json").data == []


@pytest.mark.spec("L3")
def test_show_prints_the_timeline_of_runs(failed: Scene) -> None:
    out = run(failed, "show", "bad:1").out

    assert "bad:1" in out
    assert "PROVIDER_5XX: 503 refused" in out
    runs = out.partition("\nruns\n")[2].splitlines()
    assert runs[0].split()[:3] == ["run", "claimed", "took"]
    assert "failed" in runs[1]
    assert "spent" in runs[1]


def test_show_as_json_has_runs_and_acts(failed: Scene) -> None:
    found = run(failed, "show", "bad:1", "--json").data

    assert found["job_id"] == "bad:1"
    assert found["payload"] == {}
    assert [entry["how"] for entry in found["runs"]] == ["failed"]
    assert found["runs"][0]["spent"] is True
    assert found["audit"] == []


@pytest.mark.parametrize("verb", ["show", "retry", "cancel"])
def test_an_unknown_job_is_a_sentence_and_code_1(scene: Scene, verb: str) -> None:
    done = run(scene, verb, "nobody")

    assert done.code == 1
    assert "nobody" in done.err
    assert "there is no" in done.err
    assert done.out == ""


@pytest.mark.spec("R5", "A3")
def test_retry_records_who_and_why(failed: Scene) -> None:
    done = run(failed, "retry", "bad:0", "--reason", "provider is back")

    assert (done.code, done.out) == (0, "job bad:0: queued again\n")
    shown = run(failed, "show", "bad:0", "--json").data
    assert shown["state"] == "queued"
    assert shown["manual"] == 1
    (act,) = shown["audit"]
    assert (act["actor"], act["reason"]) == (f"{getpass.getuser()}@{socket.gethostname()}", "provider is back")
    assert (act["was"], act["became"]) == ("failed", "queued")
    assert "provider is back" in run(failed, "show", "bad:0").out


@pytest.mark.spec("R5")
def test_retry_of_a_job_whose_key_is_held_names_the_holder_and_changes_nothing(scene: Scene) -> None:
    """STK-3."""
    scene.enqueue(1, prefix="old", unique_key="k")
    worker = scene.worker()
    worker.claim()
    scene.wire.run(jobs.settle(scene.sql, [(worker.fences[0], Settlement(act="fail", code="X"))]))
    scene.enqueue(1, prefix="new", unique_key="k")

    done = run(scene, "retry", "old:0", "--json")

    assert done.code == 1
    assert '"holder": "new:0"' in done.out
    assert '"answer": "skipped"' in done.out
    assert scene.states() == {"old:0": "failed", "new:0": "queued"}


def test_retry_of_a_waiting_job_is_refused(failed: Scene) -> None:
    done = run(failed, "retry", "waits:0")

    assert done.code == 1
    assert "not retried: it is queued or running already" in done.err


def test_bulk_retry_takes_what_fits_up_to_its_limit(failed: Scene) -> None:
    words = ("--state", "failed", "--task", "t", "--limit", "2", "--actor", "ops", "--yes", "--json")

    answers = run(failed, "retry", *words).data

    assert [entry["answer"] for entry in answers] == ["resubmitted", "resubmitted"]
    assert sorted(failed.states().values()) == ["failed", "queued", "queued", "queued"]
    assert failed.ask("select distinct actor from fencepost.audit") == [("ops",)]


def test_bulk_retry_without_yes_and_without_a_terminal_touches_nothing(failed: Scene) -> None:
    done = run(failed, "retry", "--state", "failed")

    assert done.code == 2
    assert done.sentence == "3 jobs fit: give --yes to retry them without being asked"
    assert list(failed.states().values()).count("failed") == 3


def test_cancel_ends_a_queued_job_and_asks_a_running_one(failed: Scene) -> None:
    failed.enqueue(1, prefix="runs")
    worker = failed.worker()
    worker.claim(1)
    running = worker.held[0].job_id
    waiting = next(job_id for job_id, state in failed.states().items() if state == "queued")

    done = run(failed, "cancel", running, waiting, "--reason", "withdrawn", "--json")

    answers = {entry["job_id"]: entry["answer"] for entry in done.data}
    assert answers == {running: "requested", waiting: "cancelled"}
    assert failed.states()[waiting] == "cancelled"


def test_cancel_of_an_ended_job_says_so(failed: Scene) -> None:
    done = run(failed, "cancel", "bad:0")

    assert done.code == 1
    assert "it is over already" in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("retry",), "no job is named"),
        (("retry", "a", "--state", "failed"), "job ids and filters exclude each other"),
        (("retry", "a", "--actor", " "), "--actor must name somebody"),
        (("list", "--state", "gone"), "'gone' is not one of"),
        (("list", "--limit", "0"), "0 is not in the range"),
        (("cancel",), "Missing argument"),
    ],
)
def test_wrong_use_is_code_2_and_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = fencepost("jobs", *words, env={"FENCEPOST_DSN": "postgresql:///nowhere"})

    assert done.code == 2
    assert sentence in done.sentence


@pytest.mark.spec("K1", "A1")
def test_show_masks_the_secrets_of_payload_and_reason(scene: Scene) -> None:
    payload = '{"user": "ada", "password": "hunter2hunter", "note": "use live-Key-0815"}'
    scene.ask("select fencepost.enqueue('login', %s::jsonb, 'login:1')", payload)
    env = {"FENCEPOST_DSN": scene.dsn, "SHOP_KEY": "live-Key-0815"}
    fencepost("jobs", "cancel", "login:1", "--reason", "leaked live-Key-0815", env=env)

    shown = fencepost("jobs", "show", "login:1", env=env)
    data = fencepost("jobs", "show", "login:1", "--json", env=env)

    for out in (shown.out, data.out):
        assert "hunter2hunter" not in out
        assert "live-Key-0815" not in out
    assert "leaked [redacted]" in shown.out
    assert data.data["payload"] == {"user": "ada", "password": "[redacted]", "note": "use [redacted]"}
