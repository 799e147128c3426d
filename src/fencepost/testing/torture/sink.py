"""Where business effects arrive: a server of its own that counts, on a Unix socket; the third witness.

``python -m fencepost.testing.torture.sink FOLDER``. One line asks (``{"job_id", "run", "pid"}``), one answers
(``first`` or ``again``), and ``effects.jsonl`` has it before the answer. It ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from fencepost.testing.torture.notes import Notes

SOCKET = "sink"


class Sink:
    """Knows which effects it has seen."""

    def __init__(self, folder: Path) -> None:
        self._notes = Notes(folder / "effects.jsonl")
        self._seen: set[str] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client: a line for a line."""
        try:
            while line := await reader.readline():
                asked = json.loads(line)
                first = asked["job_id"] not in self._seen
                self._seen.add(asked["job_id"])
                self._notes.add(job_id=asked["job_id"], run=asked["run"], pid=asked["pid"], first=first)
                writer.write(b"first\n" if first else b"again\n")
                await writer.drain()
        except (OSError, ValueError):  # a client that was killed in the middle of a line
            pass
        finally:
            writer.close()


async def _main(folder: Path) -> None:
    sink = Sink(folder)
    server = await asyncio.start_unix_server(sink.serve, folder / SOCKET)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
