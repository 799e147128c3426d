"""A provider of the tests' own: an HTTP service in a process of its own, which makes objects and keeps a journal.

A POST to /objects makes one object for each Idempotency-Key; a key that it has seen gets the first object again. Each
physical request is a line of the journal, written before the answer, so that it is a witness which shares nothing with
the workers. A test tells it how to behave in the next requests: `UNAVAILABLE`, `busy_for`, `REFUSING`, `SILENT`.

``python provider.py JOURNAL`` is the program; `Provider` starts it, tells it and reads its journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Behaviour = dict[str, Any]

UNAVAILABLE: Behaviour = {"status": 503}
REFUSING: Behaviour = {"status": 422}
SILENT: Behaviour = {"silent": True}
"""It makes the object, and the answer never arrives."""


def busy_for(seconds: int) -> Behaviour:
    """503 with Retry-After."""
    return {"status": 503, "retry_after": seconds}


class Provider:
    """The running provider, as a test sees it."""

    def __init__(self, journal: Path, port: int) -> None:
        self.journal, self.port = journal, port
        self.url = f"http://127.0.0.1:{port}"

    def behave(self, *next_ones: Behaviour) -> None:
        """So in the next requests, one each; after them well again."""
        with contextlib.closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request("PUT", "/behaviour", json.dumps(next_ones))
            assert connection.getresponse().status == 204

    def requests(self, name: str | None = None) -> list[dict[str, Any]]:
        """Each physical request, in order: name, key, status, effect (made, known, none), object."""
        with contextlib.suppress(FileNotFoundError):
            lines = map(json.loads, self.journal.read_text().splitlines())
            return [line for line in lines if name is None or line["name"] == name]
        return []

    def effects(self, name: str) -> list[str]:
        """What each request about ``name`` did."""
        return [line["effect"] for line in self.requests(name)]

    def objects(self, name: str) -> list[int]:
        """What was really made under this name."""
        return [line["object"] for line in self.requests(name) if line["effect"] == "made"]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Provider]:
    """The provider in a process of its own, ended with the block."""
    journal = folder / "journal"
    process = subprocess.Popen(
        [sys.executable, __file__, str(journal)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Provider(journal, int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


class _Service(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, journal: str) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.lock = threading.Lock()
        self.made: dict[str, int] = {}
        self.next_ones: list[Behaviour] = []
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def serve_one(self, name: str, key: str) -> tuple[int, dict[str, Any], Behaviour]:
        """Decide, do and write down; the status, the object and how to behave."""
        with self.lock:
            how = self.next_ones.pop(0) if self.next_ones else {}
            status, effect = how.get("status", 200 if key in self.made else 201), "none"
            if status < 300:
                effect = "known" if key in self.made else "made"
                self.made.setdefault(key, len(self.made) + 1)
            line = {"name": name, "key": key, "status": status, "effect": effect, "object": self.made.get(key)}
            os.write(self._journal, json.dumps(line).encode() + b"\n")
            return status, {"object": self.made.get(key)}, how


class _Requests(BaseHTTPRequestHandler):
    server: _Service

    def do_PUT(self) -> None:
        """From the test: how to behave."""
        with self.server.lock:
            self.server.next_ones = json.loads(self._body())
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        """From a job: make an object."""
        name = json.loads(self._body())["name"]
        status, answer, how = self.server.serve_one(name, self.headers["Idempotency-Key"])
        if how.get("silent"):
            self.connection.recv(1)  # until the caller has given up
            self.close_connection = True
            return
        text = json.dumps(answer).encode()
        self.send_response(status)
        if "retry_after" in how:
            self.send_header("Retry-After", str(how["retry_after"]))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(text)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def log_message(self, *_: Any) -> None:
        """The journal is enough."""


if __name__ == "__main__":
    service = _Service(sys.argv[1])
    sys.stdout.write(f"{service.server_address[1]}\n")
    sys.stdout.flush()
    service.serve_forever()
