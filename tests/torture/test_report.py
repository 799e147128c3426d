"""The report: what a reader must find on it, and what a hostile history must not be able to do."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fencepost.testing.torture.checker import check
from fencepost.testing.torture.report import write
from torture.sound import clean, rescued
from torture.tales import CHILD, OTHER, TTL, Tale

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "</style><b>", "&lt;b&gt;",
    "javascript:alert(1)", "\u202egnirts", "nul\x00 and \x1b[31mred", "\ud800 alone", "]]>--><!--",
]  # fmt: skip


class Page(HTMLParser):
    """A page as a browser would take it apart: text, and every tag with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.depth: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "rect"}:
            self.depth.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.depth.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.depth and self.depth[-1] != "style":
            self.text += data + " "


def told(tale: Tale, folder: Path) -> tuple[str, Page]:
    """The report on a tale, as a file and as a page."""
    target = folder / "report.html"
    write(tale.write(folder), check(folder), target)
    html = target.read_text(encoding="utf-8")
    return html, Page(html)


def broken(tale: Tale, name: str = "bad") -> None:
    """An effect that comes long after the lease was lost."""
    job = tale.enqueue(name, key="k")
    tale.claim(job)
    tale.start(job)
    for _ in range(4):
        tale.beat(job)
    tale.whole("meanwhile")
    tale.fault("kill network", f"child {CHILD}", [name])
    tale.pass_(TTL)
    tale.put_back(job, "stale", refused=1)
    tale.run_well(job, OTHER)
    tale.whole("after")
    tale.pass_(3 * TTL)
    tale.effect(job, CHILD, run=1)


@pytest.mark.parametrize(
    ("tell", "says"),
    [
        (clean, "Every promise was kept: 5 acknowledged jobs and 0 faults, no violation."),
        (broken, "2 violations of the promises, with 3 acknowledged jobs and 1 fault."),
        (lambda tale: tale.meta.update(drained=False), "No violation was found, but this run shows too little: 0 acknowledged jobs and 0 faults."),
    ],
)  # fmt: skip
def test_the_report_says_in_one_sentence_how_it_went(tell: object, says: str, tmp_path: Path) -> None:
    tale = Tale()
    tell(tale)  # type: ignore[operator]

    _, page = told(tale, tmp_path)

    assert says in page.text


def test_an_offending_job_has_its_whole_story_from_all_witnesses_in_order(tmp_path: Path) -> None:
    tale = Tale()
    broken(tale)

    _, page = told(tale, tmp_path)

    story = page.text[page.text.index("Job  bad") :]
    told_in_order = [
        "call 1: enqueue pay, key k", "insert job: job_id bad", "insert ready", "insert held: scope pay, key k", "call 1: created, id 1",
        "insert running: run_count 1", "run 1: start attempt 1, token 11", "(4 times)", "kill network: child 101", "insert attempt: run_count 1",
        "run 2: start attempt 2, token 22", "run 2: effect", "run 2: its effect happened", "run 2: end how returned",
        "insert outcome", "run 1: effect", "run 1: its effect had happened before", "job 1: succeeded after 2 runs",
        "run 1 (token 11): stale, attempt spent, 1 late writes refused",
    ]  # fmt: skip
    places = [story.find(line) for line in told_in_order]
    assert -1 not in places, [line for line in told_in_order if line not in story]
    assert places == sorted(places)
    assert "P11: run 1 had an effect" in story
    assert "after" not in [text.strip() for text in re.findall(r"Job  (.*?)  ", page.text)]


def test_the_report_names_what_repeats_the_run(tmp_path: Path) -> None:
    tale = Tale()
    clean(tale)
    tale.meta["seed"] = 271828

    _, page = told(tale, tmp_path)

    assert '"seed": 271828' in page.text
    assert '"shutdown_timeout": 2.0' in page.text


def test_the_chart_shows_starts_faults_and_rescues(tmp_path: Path) -> None:
    tale = Tale()
    rescued(tale)
    tale.fault("kill", f"child {CHILD}", [])

    _, page = told(tale, tmp_path)

    drawn = [values.get("class") for tag, values in page.tags if tag == "rect"]
    assert {kind: drawn.count(kind) for kind in ("met", "missed", "rescues", "ground")} == {
        "met": 1,
        "missed": 1,
        "rescues": 1,
        "ground": 3,
    }
    assert drawn.count("starts") >= 2
    assert "freeze 1 1 kill 1 0" in " ".join(page.text.split())


def test_the_page_asks_nobody_and_allows_nothing_but_its_own_style(tmp_path: Path) -> None:
    tale = Tale()
    broken(tale)

    html, page = told(tale, tmp_path)

    style = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    policy = next(
        values["content"] for tag, values in page.tags if values.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "a", "object", "form"} == set()
    assert not re.search(r"url\(|@import|https?:", html)
    names = {name for _, values in page.tags for name in values}
    assert names & {"style", "href", "src", "srcdoc"} == set()
    assert not [name for name in names if name.startswith("on")]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_of_the_history_becomes_part_of_the_page(hostile: str, tmp_path: Path) -> None:
    harmless, tale = Tale(), Tale()
    broken(harmless)
    broken(tale, f"bad{hostile}")
    for one, text in ((harmless, "plain"), (tale, hostile)):
        one.meta["settings"]["note"] = text
        one.meta["kinds"] = [text]
        one.fault(f"kill {text}", text, ["bad" if one is harmless else f"bad{hostile}"], note=text)
        one.lines["secrets.jsonl"] = [{"where": text, "found": text}]
    (tmp_path / "plain").mkdir()
    _, plain = told(harmless, tmp_path / "plain")

    html, page = told(tale, tmp_path)

    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    shown = re.sub("[\x00\x1b\u202e\ud800]", "\ufffd", hostile)
    assert page.text.count(shown) >= 6
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", html)


def test_a_long_story_is_cut_and_says_so(tmp_path: Path) -> None:
    tale = Tale()
    broken(tale)
    for _ in range(400):
        tale.skip("bad", None, "other")

    _, page = told(tale, tmp_path)

    assert re.search(r"and 5\d\d more lines", page.text)


def test_a_history_without_a_beginning_is_reported_as_well(tmp_path: Path) -> None:
    tale = Tale()
    broken(tale)
    tale.write(tmp_path)
    (tmp_path / "meta.json").unlink()

    write(tmp_path, check(tmp_path), tmp_path / "report.html")

    assert "meta.json is missing" in Page((tmp_path / "report.html").read_text()).text
