"""The workers of a benchmark: the command that users run, in processes of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from fencepost.bench.ground import QUEUE, SCHEMA, Ground

_STOP_S = 20.0


@contextlib.contextmanager
def worker(ground: Ground, options: Sequence[str], *, processes: int = 1) -> Iterator[int]:
    """``fencepost worker`` with these options, ready to claim; gives the pid of its supervisor. Stopped at the end.

    The DSN goes through the environment, where a password is not seen by everybody.
    """
    program = [sys.executable, "-m", "fencepost", "worker", "fencepost.bench.program:app", "--queue", QUEUE]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
    environ |= {"FENCEPOST_DSN": ground.dsn, "FENCEPOST_SCHEMA": SCHEMA}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*program, "--log-level", "WARNING", "--processes", str(processes), *options],
            env=environ,
            stdin=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            ground.await_workers(processes)
            yield process.pid
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read()[-2000:].decode(errors="replace"))
            raise
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
