"""``fencepost torture``: check the wishes, run the story, write the report, answer with an exit code."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fencepost import early
from fencepost.errors import UsageError
from fencepost.testing.torture.ground import GivenGround, Ground, OwnGround
from fencepost.testing.torture.settings import Settings

LEAST_S = 5.0
MOST_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TortureOptions:
    """What the command takes. ``folder`` None: a temporary one, removed when nothing was found."""

    seconds: float = 60.0
    seed: int | None = None
    faults: tuple[str, ...] = ()
    dsn: str | None = None
    shared: bool = False
    folder: Path | None = None
    report: Path | None = None
    json: bool = False


def run(options: TortureOptions) -> int:
    """Run it; 0: all promises held, 1: one was broken, 2: the run proves too little (and `UsageError`)."""
    if not sys.platform.startswith("linux"):
        raise UsageError("torture needs Linux: it finds, freezes and kills processes by /proc")
    if not LEAST_S <= options.seconds <= MOST_S:
        raise UsageError(f"--seconds must be between {LEAST_S:g} and {MOST_S:g}, not {options.seconds:g}")
    from fencepost.testing.torture.nemesis import choose
    from fencepost.testing.torture.story import Story

    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    folder = options.folder or Path(tempfile.gettempdir()) / f"fencepost-torture-{secrets.token_hex(4)}"
    ground = _ground(options, folder)
    kinds = choose(options.faults, ground)
    folder.mkdir(parents=True, exist_ok=options.folder is not None, mode=0o700)
    settings = Settings(seed=seed, seconds=options.seconds)
    early.interrupt_on_stops()  # or workers and server would outlive us
    verdict = Story(folder, ground, settings, kinds, _say).run()
    if options.report is not None:
        from fencepost.testing.torture.report import write

        write(folder, verdict, options.report)
    figures = verdict.to_json()
    if options.json:
        print(json.dumps({"seed": seed, "seconds": options.seconds, **figures}))
    else:
        _print(seed, figures)
    if options.folder is not None or figures["exit"]:
        _say(f"histories and logs: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return int(figures["exit"])


def _say(line: str) -> None:
    print(f"torture: {line}", file=sys.stderr, flush=True)


def _ground(options: TortureOptions, folder: Path) -> Ground:
    return OwnGround(folder) if options.dsn is None else GivenGround(options.dsn, shared=options.shared)


def _print(seed: int, figures: dict[str, object]) -> None:
    faults = figures["faults"]
    assert isinstance(faults, dict)
    print(f"seed {seed}: {figures['jobs']:,} jobs acknowledged, {sum(faults.values())} faults of {len(faults)} kinds")
    print(
        f"rescues {figures['rescues']}, re-runs {figures['reruns']}, late writes refused {figures['refused_late_writes']}"
    )
    for name in ("violations", "vacuous", "inconclusive"):
        found = figures[name]
        assert isinstance(found, list)
        for one in found[:20]:
            words = f"{one['rule']} {one.get('job_id') or ''}: {one['what']}" if isinstance(one, dict) else one
            print(f"  {name}: {words}")
    verdicts = {0: "Every promise held.", 1: "A promise was BROKEN.", 2: "No verdict: the run proves too little."}
    code = figures["exit"]
    assert isinstance(code, int)
    print(verdicts[code])
