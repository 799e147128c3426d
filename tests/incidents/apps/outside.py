"""What bodies of the incidents do outside: ask the provider, and wait at a gate that the test opens."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from urllib import request

from fencepost import JobContext
from worker.apps.scenario_app import note

_direct = request.build_opener(request.ProxyHandler({}))


def make(key: str, name: str, patience: float = 20.0) -> int:
    """Ask the provider for the object ``name`` under this key; raises what urllib raises."""
    asked = request.Request(
        os.environ["SHOP_PROVIDER"] + "/objects",
        json.dumps({"name": name}).encode(),
        {"Content-Type": "application/json", "Idempotency-Key": key},
        method="POST",
    )
    with _direct.open(asked, timeout=patience) as answer:
        return int(json.load(answer)["object"])


def wait_at(gate: str, job: JobContext) -> None:
    """Until the test opens it; notes that the worker is about to stop, once."""
    file = Path(os.environ["SCENE_EVENTS"]).with_name(f"gate {gate}")
    told = False
    while not file.exists():
        if job.stopping and not told:
            told = True
            note("stopping", job)
        time.sleep(0.01)
