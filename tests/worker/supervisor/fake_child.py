"""A worker process without a worker: claims what its plan says, shows it on the board, and notes what it is told.

    python fake_child.py BOARD CONTROL CONFIG HELLO        (the start protocol of fencepost.worker.supervisor.processes)

The plan is the JSON file that ``app`` names. Each event is a line of JSON in the plan's ``events`` file.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from fencepost.sql.catalog import Catalog
from fencepost.store import jobs
from fencepost.store.wire import Wire
from fencepost.worker import words
from fencepost.worker.board import Board, Phase, boot_ns

board_fd, control, config_fd, hello_fd = map(int, sys.argv[1:5])
with os.fdopen(config_fd) as file:
    config = json.load(file)
with open(config["app"]) as file:
    plan = json.load(file)
number = config["number"]
plan = {**plan, **plan.get(f"child{number}", {})}
ended = threading.Event()


def note(what: str, **more: Any) -> None:
    line = json.dumps({"what": what, "pid": os.getpid(), "number": number, "at": time.monotonic(), **more}) + "\n"
    fd = os.open(plan["events"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line.encode())
    os.close(fd)


def hello(**answer: Any) -> None:
    os.write(hello_fd, json.dumps(answer).encode() + b"\n")
    os.close(hello_fd)


signal.signal(signal.SIGTERM, signal.SIG_IGN if plan.get("on_drain") == "ignore" else lambda *_: leave(0))
signal.signal(signal.SIGINT, signal.SIG_IGN)
board = Board(board_fd, number, config["entries"])


def leave(code: int) -> None:
    board.enter(Phase.DONE)
    note("left", code=code)
    os._exit(code)


def ping() -> None:
    """Reads the pipe and gives a sign of life, unless the plan holds its breath."""
    reader, poll = words.Reader(), select.poll()
    board.ping()
    poll.register(control, select.POLLIN)
    while True:
        if not plan.get("no_ping"):
            board.ping()
        if not poll.poll(50):
            continue
        data = os.read(control, 65536)
        if not data:
            note("orphan")
            os._exit(0)
        for word in reader.feed(data):
            told = {name: getattr(word, name) for name in word.__dataclass_fields__}
            if "runs" in told:
                told["ids"] = [id_ for id_, _ in told.pop("runs")]
            note(type(word).__name__, **told)
            if isinstance(word, words.Drain) and plan.get("on_drain", "leave") == "leave":
                leave(plan.get("exit_code", 0))


def pipes() -> list[int]:
    """Which descriptors beyond the standard ones are pipes."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if fd > 2 and os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:"):
                found.append(fd)
        except OSError:
            pass  # the one that listed the folder
    return found


note("born", argv=sys.argv, pipes=pipes())
if plan.get("die_in") is not None and plan["die_in"] == "start":
    os._exit(3)
if plan.get("import_s"):
    time.sleep(plan["import_s"])
if plan.get("refuse"):
    hello(ok=False, message=plan["refuse"], exit_code=plan.get("refuse_code", 2))
    os._exit(plan.get("refuse_code", 2))
token = secrets.randbits(63)
board.open(token)
threading.Thread(target=ping, daemon=True).start()
board.enter(Phase.WORKING)
sql = Catalog(config["schema"] or "fencepost")
dsn = config["dsn"] or plan["dsn"]
hello(ok=True, dsn=dsn, schema=sql.schema, tasks=0)
if plan.get("die_in") == "work":
    os._exit(4)

held: list[Any] = []
if plan.get("claim"):
    wire = Wire(dsn, deadline=5, name="fake")
    wanted = time.monotonic() + 20
    while len(held) < plan["claim"] and time.monotonic() < wanted:
        found = wire.run(
            jobs.claim(
                sql,
                token,
                {"default": plan["claim"] - len(held)},
                max_bytes=1 << 20,
                ttl_s=config["settings"]["heartbeat_ttl"],
            )
        )
        for job in found.jobs:
            beat_ms = 0 if plan.get("plain") else int(config["settings"]["heartbeat_interval"] * 1000)
            held.append((job, board.publish(job.id, job.run_count, beat_ms)))
        time.sleep(0.02)
    for job, at in held[: plan.get("start", 0)]:
        limit = boot_ns() + int(plan["limit_s"] * 1e9) if plan.get("limit_s") and job is held[0][0] else 0
        board.start(at, limit)
    wire.close()
    note("holds", ids=[job.id for job, _ in held], token=token)
if plan.get("stray"):
    stray = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    body = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note("stray", stray=stray.pid, body=body.pid)
if plan.get("stuck_s"):
    board.overdue(held[0][1])
    board.stuck(boot_ns() + int(plan["stuck_s"] * 1e9))
if plan.get("start_later"):
    while not os.path.exists(plan["start_later"]):
        time.sleep(0.02)
    note("started_later", ok=[board.start(at) for _, at in held])
while True:
    ended.wait(3600)
