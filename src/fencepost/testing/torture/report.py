"""The report of a run: one HTML page that needs nothing else, no script, no request, in light and dark."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from fencepost.testing.torture.chart import bars, ticks
from fencepost.testing.torture.timelines import MOST, Entry, Reader, Timelines
from fencepost.testing.torture.verdict import Verdict

UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that would hide or turn around what they stand beside."""
OPEN = 3
"""So many timelines are unfolded when the page opens."""

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--faint:#59636e;--line:#d5dae0;--strip:#f3f5f7;
--good:#126b32;--bad:#b3141f;--unsure:#8a5300;--starts:#2563a8;--rescues:#8a5300}
@media (prefers-color-scheme:dark){:root{--ground:#14171b;--ink:#e4e8ec;--faint:#9aa4af;--line:#353c44;--strip:#1d2228;
--good:#5fd08a;--bad:#ff8a8a;--unsure:#f0b65a;--starts:#6fb1f5;--rescues:#f0b65a}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:76rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.15rem;margin:2rem 0 .5rem}
.held{color:var(--good)}.broken{color:var(--bad)}.unsure{color:var(--unsure)}
.faint,dt,th,figcaption{color:var(--faint)}
.numbers{display:flex;flex-wrap:wrap;gap:.75rem;margin:0}
.numbers div{flex:1 1 9rem;border:1px solid var(--line);border-radius:.4rem;padding:.5rem .75rem}
.numbers dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}
dt,figcaption{font-size:.85rem}
figure{margin:0 0 .75rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--line)}
th{font-weight:400;overflow-wrap:normal;font-size:.85rem}
.count{text-align:right;font-variant-numeric:tabular-nums}
svg{display:block;width:100%;height:4rem}
.ground{fill:var(--strip)}.starts{fill:var(--starts)}.rescues{fill:var(--rescues)}.met{fill:var(--bad)}
.missed{fill:var(--faint)}
details{border:1px solid var(--line);border-radius:.4rem;padding:.5rem .75rem;margin:.5rem 0}
summary{cursor:pointer}
.time{white-space:nowrap;font-variant-numeric:tabular-nums}
.who{white-space:nowrap}
pre{white-space:pre-wrap;background:var(--strip);padding:.75rem;border-radius:.4rem;font-size:.85rem}
@media (max-width:40rem){.timeline tr,.timeline td{display:block;border:0;padding:0}
.timeline tr{border-bottom:1px solid var(--line);padding:.3rem 0}.timeline .time,.timeline .who{display:inline-block;
color:var(--faint);margin-right:.75rem}.timeline thead{display:none}}
"""


def write(folder: Path, verdict: Verdict, target: Path) -> None:
    """Write the report on a history and its verdict to ``target``.

    The page holds what the history says, escaped; it asks nobody for anything and runs under a policy that allows
    nothing but its own style.
    """
    names = list(dict.fromkeys(one.job_id for one in verdict.violations if one.job_id))
    told = Reader(folder, names, verdict.moments).read()
    target.write_text(_page(verdict, told), encoding="utf-8")


def sentence(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    faults = sum(verdict.faults.values())
    seen = f"{_many(verdict.jobs, 'acknowledged job')} and {_many(faults, 'fault')}"
    if verdict.exit == 1:
        return f"{_many(verdict.violation_count, 'violation')} of the promises, with {seen}."
    if verdict.exit == 2:
        return f"No violation was found, but this run shows too little: {seen}."
    return f"Every promise was kept: {seen}, no violation."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _page(verdict: Verdict, told: Timelines) -> str:
    mark = ("held", "broken", "unsure")[verdict.exit]
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    body = [
        f'<h1 class="{mark}">{_text(sentence(verdict))}</h1>',
        _reasons(verdict),
        _numbers(verdict),
        _chart(verdict, told),
        _faults(verdict),
        _violations(verdict),
        *(_job(name, verdict, told, place < OPEN) for place, name in enumerate(told.jobs)),
        _repeat(told),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>fencepost torture: {_text(sentence(verdict))}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{chr(10).join(part for part in body if part)}\n</main>\n</body>\n</html>\n"
    )


def _text(value: object) -> str:
    """A value as text that shows all it has and means nothing to a browser."""
    return escape(UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(value)))


def _table(heads: Iterable[tuple[str, str]], rows: Iterable[Iterable[object]], name: str = "") -> str:
    heads = list(heads)
    top = "".join(f'<th class="{kind}">{_text(head)}</th>' for head, kind in heads)
    cells = (zip(row, heads, strict=True) for row in rows)
    lines = "".join(
        f"<tr>{''.join(f'<td class={chr(34)}{kind}{chr(34)}>{_text(cell)}</td>' for cell, (_, kind) in row)}</tr>\n"
        for row in cells
    )
    return f'<table class="{name}"><thead><tr>{top}</tr></thead>\n<tbody>\n{lines}</tbody></table>'


def _reasons(verdict: Verdict) -> str:
    reasons = [*verdict.vacuous, *verdict.inconclusive]
    return f"<ul>{''.join(f'<li>{_text(reason)}</li>' for reason in reasons)}</ul>" if reasons else ""


def _numbers(verdict: Verdict) -> str:
    numbers = {
        "jobs acknowledged": verdict.jobs,
        "faults": sum(verdict.faults.values()),
        "faults on running jobs": sum(verdict.faults_on_running.values()),
        "leases rescued": verdict.rescues,
        "bodies run again": verdict.reruns,
        "late writes refused": verdict.refused_late_writes,
        "violations": verdict.violation_count,
    }
    shown = "".join(f"<div><dt>{_text(name)}</dt><dd>{count:,}</dd></div>" for name, count in numbers.items())
    return f'<dl class="numbers">{shown}</dl>'


def _chart(verdict: Verdict, told: Timelines) -> str:
    starts, rescues = max(told.starts.values(), default=0), max(told.rescues.values(), default=0)
    kinds, seconds = sorted(verdict.faults), int(told.seconds) + 1
    strips = [
        (f"Starts, up to {starts:,} a second", bars(told.starts, seconds, "starts")),
        ("Faults, by kind as in the table below; faint: no running job was met", ticks(told, kinds, seconds)),
        (f"Rescues, up to {rescues:,} a second", bars(told.rescues, seconds, "rescues")),
    ]
    drawn = "\n".join(f"<figure><figcaption>{_text(says)}</figcaption>{svg}</figure>" for says, svg in strips)
    return f"<h2>What happened when, over {seconds:,} seconds</h2>\n{drawn}"


def _faults(verdict: Verdict) -> str:
    if not verdict.faults:
        return ""
    rows = [(kind, count, verdict.faults_on_running.get(kind, 0)) for kind, count in sorted(verdict.faults.items())]
    heads = [("kind of fault", ""), ("happened", "count"), ("met a running job", "count")]
    return f"<h2>Faults</h2>\n{_table(heads, rows)}"


def _violations(verdict: Verdict) -> str:
    if not verdict.violations:
        return ""
    told = f"{len(verdict.violations)} of {verdict.violation_count:,} are told here. "
    rules = ", ".join(f"{rule} {_many(count, 'time')}" for rule, count in verdict.rules.items())
    heads = [("rule", "who"), ("job", ""), ("what was seen", "")]
    return f'<h2>Violations</h2>\n<p class="faint">{_text(told + rules)}</p>\n{_table(heads, verdict.violations)}'


def _job(name: str, verdict: Verdict, told: Timelines, unfolded: bool) -> str:
    entries = told.jobs[name]
    whys = [f"{one.rule}: {one.what}" for one in verdict.violations if one.job_id == name]
    heads = [("seconds", "time"), ("who", "who"), ("what", "")]
    table = _table(heads, (_line(entry) for entry in entries[:MOST]), "timeline")
    more = f'<p class="faint">and {len(entries) - MOST:,} more lines</p>' if len(entries) > MOST else ""
    reasons = "".join(f"<li>{_text(why)}</li>" for why in whys)
    summary = f"<summary>Job <b>{_text(name)}</b></summary>"
    return f"<details{' open' if unfolded else ''}>{summary}\n<ul>{reasons}</ul>\n{table}{more}</details>"


def _line(entry: Entry) -> tuple[str, str, str]:
    about = "~" if entry.who == "database" else ""
    times = f" ({entry.times} times)" if entry.times > 1 else ""
    return f"{about}{entry.t:.3f}", entry.who, entry.what + times


def _repeat(told: Timelines) -> str:
    known = {
        name: told.meta[name]
        for name in ("seed", "seconds", "settings", "kinds", "floors", "versions")
        if name in told.meta
    }
    return f"<h2>To repeat it</h2>\n<pre>{_text(json.dumps(known, indent=2, ensure_ascii=False))}</pre>"
