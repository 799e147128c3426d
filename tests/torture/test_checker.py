"""The checker against histories told by hand: good ones pass, and one broken promise is named, with its job."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from fencepost.testing.torture.checker import check
from fencepost.testing.torture.verdict import SHOWN, Findings, Verdict
from house.tree import TOP
from torture.broken import BROKEN, Broken
from torture.sound import SOUND, rescued
from torture.tales import CHILD, Tale

FLOORS = {"jobs": 3, "acked_share": 0.8, "rescues": 1, "reruns": 1, "refused_late_writes": 1, "fault_kinds": 1}


@pytest.mark.spec("D2")
@pytest.mark.parametrize("tell", SOUND, ids=lambda tell: tell.__name__)
def test_nothing_is_found_where_nothing_is_wrong(tell: Callable[[Tale], None], tmp_path: Path) -> None:
    tale = Tale()
    tell(tale)

    verdict = check(tale.write(tmp_path))

    assert verdict.violations == []
    assert (verdict.vacuous, verdict.inconclusive, verdict.exit) == ([], [], 0)


@pytest.mark.spec("D2", "D4")
@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: f"{broken.rule}-{broken.tell.__name__}")
def test_a_broken_promise_is_named_with_its_rule_and_its_job(broken: Broken, tmp_path: Path) -> None:
    tale = Tale()
    tale.whole("neighbour")
    broken.tell(tale)

    verdict = check(tale.write(tmp_path))

    found = [(one.rule, one.job_id) for one in verdict.violations if broken.says in one.what]
    assert found == [(broken.rule, broken.job)], verdict.violations
    assert {one.job_id for one in verdict.violations} <= {broken.job, *broken.also}
    assert verdict.violation_count == len(verdict.violations) == sum(verdict.rules.values())
    assert verdict.exit == 1


def test_every_rule_has_a_history_that_breaks_it() -> None:
    rules = {f"P{n}" for n in range(1, 12)} | {"crew", "effects", "fsck"}

    assert {one.rule for one in BROKEN} == rules


def test_every_place_that_finds_something_has_been_seen_to_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that nobody has seen fail may be one that cannot."""
    places, seen = _places_that_find(), set()
    add = Findings.add

    def noted(self: Findings, rule: str, job_id: str | None, what: str) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and "torture" in frame.f_code.co_filename:
            seen.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
            frame = frame.f_back
        add(self, rule, job_id, what)

    monkeypatch.setattr(Findings, "add", noted)
    for number, broken in enumerate(BROKEN):
        tale, folder = Tale(), tmp_path / str(number)
        folder.mkdir()
        tale.whole("neighbour")
        broken.tell(tale)
        check(tale.write(folder))

    unseen = [place for place in places if not any((place[0], line) in seen for line in place[1])]

    assert len(places) > 40
    assert unseen == []


def _places_that_find() -> list[tuple[str, range]]:
    """Each call in the witnesses that tells a finding: its file and its lines."""
    found = []
    for path in sorted((TOP / "src/fencepost/testing/torture/witnesses").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("findings.add", "._say")):
                found.append((path.name, range(node.lineno, (node.end_lineno or node.lineno) + 1)))
    return found


# ---- numbers


def test_the_numbers_are_those_of_the_history(tmp_path: Path) -> None:
    tale = Tale()
    rescued(tale)
    tale.skip("other", "k", tale.enqueue("holder", key="k").name)
    tale.run_well(tale.jobs["holder"])
    tale.fault("kill", f"child {CHILD}", [])
    tale.fault("kill", f"child {CHILD}", ["after lost"], landed=False)

    verdict = check(tale.write(tmp_path))

    assert verdict.to_json() == {
        "jobs": 3, "faults": {"freeze": 1, "kill": 1}, "faults_on_running": {"freeze": 1}, "rescues": 1, "reruns": 1,
        "refused_late_writes": 1, "violations": [], "violation_count": 0, "rules": {}, "vacuous": [], "inconclusive": [],
        "exit": 0,
    }  # fmt: skip


def test_a_rule_that_is_broken_often_hides_no_other() -> None:
    findings = Findings()

    for n in range(3 * SHOWN):
        findings.add("P1", f"job {n}", "lost")
    findings.add("P4", "other", "two at once")
    findings.add("P4", "other", "two at once")

    shown = findings.shown()
    assert Counter(one.rule for one in shown) == {"P1": SHOWN - 1, "P4": 1}
    assert findings.counts == {"P1": 3 * SHOWN, "P4": 1}


# ---- runs that show too little


@pytest.mark.spec("D4")
def test_a_run_that_reaches_its_floors_counts(tmp_path: Path) -> None:
    tale = Tale()
    rescued(tale)
    tale.whole("third")
    tale.meta.update(floors=FLOORS, kinds=["freeze"])

    assert check(tale.write(tmp_path)).exit == 0


@pytest.mark.spec("D4")
@pytest.mark.parametrize(
    ("floor", "amount"), [("jobs", 3), ("rescues", 1), ("reruns", 1), ("refused_late_writes", 1), ("fault_kinds", 1)]
)
def test_a_run_below_a_floor_shows_nothing(floor: str, amount: int, tmp_path: Path) -> None:
    tale = Tale()
    rescued(tale)
    tale.whole("third")
    tale.meta["floors"] = {**FLOORS, floor: amount + 1}

    verdict = check(tale.write(tmp_path))

    assert verdict.vacuous == [f"{floor} is {amount}, and should be {amount + 1} or more"]
    assert (verdict.violations, verdict.exit) == ([], 2)


@pytest.mark.spec("D4")
def test_a_run_whose_answers_were_mostly_lost_shows_nothing(tmp_path: Path) -> None:
    """Jobs that were skipped or rolled back on purpose are no part of it."""
    tale = Tale()
    tale.meta["floors"] = {"acked_share": 0.8}
    for n in range(3):
        tale.whole(f"job {n}")
    tale.fate(tale.ask("unknown"), "unknown")
    tale.fate(tale.ask("undone"), "rolled_back")

    verdict = check(tale.write(tmp_path))

    assert verdict.vacuous == ["acked_share is 0.75, and should be 0.8 or more"]
    assert verdict.exit == 2


@pytest.mark.spec("D4")
def test_a_kind_of_fault_that_met_nobody_shows_nothing(tmp_path: Path) -> None:
    tale = Tale()
    rescued(tale)
    tale.fault("kill", f"child {CHILD}", [])
    tale.fault("leader frozen", "leader 300", ["-"])
    tale.fault("disk full", "server", ["lost"], landed=False)
    tale.meta["kinds"] = ["freeze", "kill", "leader frozen", "disk full"]

    verdict = check(tale.write(tmp_path))

    assert verdict.vacuous == ["kill never met a running job", "disk full never happened"]
    assert verdict.exit == 2


@pytest.mark.spec("D4")
@pytest.mark.parametrize(("met_late", "blind"), [(0, True), (20, False)])
def test_a_nemesis_that_goes_blind_in_the_middle_shows_nothing(met_late: int, blind: bool, tmp_path: Path) -> None:
    """Each kind has met running jobs, at first: the totals look well. A frozen leader is no try, the rest is no stretch."""
    tale = Tale()
    rescued(tale)
    for n in range(129):
        met = n < 50 or n >= 129 - met_late
        tale.fault("kill", f"child {CHILD}", ["lost"] if met else [], landed=met)
        tale.fault("leader frozen", "leader 300", ["-"])
    tale.meta.update(floors={"met_share": 0.25}, kinds=["kill", "freeze"])

    verdict = check(tale.write(tmp_path))

    assert [("only 1% of the faults met" in one, "1 such stretch" in one) for one in verdict.vacuous] == [
        (True, True)
    ] * blind
    assert verdict.exit == (2 if blind else 0)


def test_a_broken_promise_beats_a_run_that_shows_too_little(tmp_path: Path) -> None:
    tale = Tale()
    tale.whole("twice")
    tale.lines["effects.jsonl"] *= 2
    tale.meta.update(floors={"jobs": 100}, drained=False)

    verdict = check(tale.write(tmp_path))

    assert (len(verdict.violations), len(verdict.vacuous), len(verdict.inconclusive), verdict.exit) == (1, 1, 1, 1)


def test_a_run_that_was_not_drained_gives_no_verdict_about_open_jobs(tmp_path: Path) -> None:
    tale = Tale()
    tale.whole("done")
    tale.enqueue("open")
    tale.meta["drained"] = False

    verdict = check(tale.write(tmp_path))

    assert verdict.violations == []
    assert [text.split(":")[0] for text in verdict.inconclusive] == ["the jobs had not all ended when the run was over"]
    assert verdict.exit == 2


def test_a_log_that_does_not_know_a_job_gives_no_verdict(tmp_path: Path) -> None:
    tale = Tale()
    job = tale.whole("unlogged")
    tale.whole("done")
    tale.forget("database.jsonl", id=job.id)

    verdict = check(tale.write(tmp_path))

    assert (verdict.violations, verdict.inconclusive) == ([], ["the database's log knows nothing of 1 jobs"])


# ---- what cannot be read


@pytest.mark.parametrize(
    "name", ["meta.json", "jobs.jsonl", "runs.jsonl", "database.jsonl", "effects.jsonl", "faults.jsonl", "fsck.jsonl"]
)
def test_a_witness_that_is_missing_gives_no_verdict(name: str, tmp_path: Path) -> None:
    tale = Tale()
    tale.whole("done")
    (tale.write(tmp_path) / name).unlink()

    verdict = check(tmp_path)

    assert (verdict.inconclusive, verdict.exit) == ([f"{name} is missing"], 2)


def test_clients_that_are_missing_give_no_verdict(tmp_path: Path) -> None:
    tale = Tale()
    del tale.lines["enqueue-1.jsonl"]

    verdict = check(tale.write(tmp_path))

    assert (verdict.inconclusive, verdict.exit) == (["enqueue-*.jsonl is missing"], 2)


@pytest.mark.parametrize("name", ["worker-101.jsonl", "enqueue-1.jsonl"])
def test_the_last_line_of_a_killed_process_may_be_cut(name: str, tmp_path: Path) -> None:
    tale = Tale()
    tale.whole("done")
    path = tale.write(tmp_path) / name
    path.write_text(path.read_text() + '{"t": 1002.5, "ev": "eff')

    assert check(tmp_path).exit == 0


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("worker-101.jsonl", '{"t": 1002.5, "ev": "eff\n', "line 4: no JSON"),
        ("effects.jsonl", '{"t": 1002.5', "line 2: no JSON"),
        ("jobs.jsonl", "[1, 2]\n", "line 2: no object"),
        ("jobs.jsonl", '{"id": 1, "state": "queued", "run_count": 0}\n', "line 2: no job_id"),
        (
            "enqueue-1.jsonl",
            '{"t": 1, "ev": "answered", "op": 99, "answers": []}\n',
            "line 3: the end of call 99, which never began",
        ),
        (
            "database.jsonl",
            '{"n": 1, "txid": 1, "place": "ready", "op": "insert", "id": 1, "row": {}}\n',
            "line 7: n is 1 after 6",
        ),
    ],
)
def test_a_line_that_cannot_be_read_gives_no_verdict(name: str, text: str, why: str, tmp_path: Path) -> None:
    tale = Tale()
    tale.whole("done")
    path = tale.write(tmp_path) / name
    path.write_text(path.read_text() + text)

    verdict = check(tmp_path)

    assert verdict.inconclusive == [f"unreadable: {name}, {why}"]
    assert (verdict.violations, verdict.exit) == ([], 2)


def test_meta_that_is_no_object_gives_no_verdict(tmp_path: Path) -> None:
    tale = Tale()
    (tale.write(tmp_path) / "meta.json").write_text("nothing")

    assert check(tmp_path).inconclusive == ["unreadable: meta.json, line 1: no JSON object"]


# ---- the command


@pytest.mark.parametrize(("name", "code"), [("done", 0), ("twice", 1)])
def test_the_command_prints_the_verdict_and_ends_with_its_code(name: str, code: int, tmp_path: Path) -> None:
    tale = Tale()
    tale.whole("done")
    tale.lines["effects.jsonl"] *= 1 + (name == "twice")
    tale.write(tmp_path)

    done = _command(str(tmp_path))

    told = json.loads(done.stdout)
    assert (done.returncode, told["exit"], done.stderr) == (code, code, "")
    assert told == check(tmp_path).to_json()


def test_the_command_without_a_folder_says_how_it_is_used() -> None:
    done = _command("nowhere")

    assert (done.returncode, done.stdout, done.stderr.split()[0]) == (2, "", "usage:")


def test_the_checker_loads_nothing_of_the_library() -> None:
    program = "import fencepost.testing.torture.checker, sys; print(*sorted(m for m in sys.modules if m.startswith('fencepost.')))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    allowed = ("fencepost.testing", "fencepost.version")
    assert [name for name in done.stdout.split() if not name.startswith(allowed)] == []


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fencepost.testing.torture.checker", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_verdict_without_anything_is_that_of_a_run_without_violations() -> None:
    assert Verdict().exit == 0
