"""The local SMTP sink: takes every mail and writes down its Message-ID. A program of its own, like the provider.

It refuses some first tries (451), and for some it accepts the mail and then hangs up without saying so, the mail's form
of a time-out after success: the sender must send again, and the stable Message-ID is what makes the two one.
"""

from __future__ import annotations

import asyncio
import contextlib
import email
import json
import os
import sys

from aiosmtpd.smtp import SMTP, Envelope, Session

from fencepost.demo.behaviour import Trouble, mail_trouble


class Sink:
    """Appends one JSON line for each physical mail before it answers."""

    def __init__(self, log_path: str) -> None:
        self._log = os.open(log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._first: set[str] = set()

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802, ARG002 - aiosmtpd's names
        """One physical mail."""
        content = envelope.content or b""
        message = email.message_from_bytes(content if isinstance(content, bytes) else content.encode())
        message_id = str(message["Message-ID"] or "")
        trouble = mail_trouble(message_id) if message_id not in self._first else Trouble.NONE
        self._first.add(message_id)
        if trouble is Trouble.UNAVAILABLE:
            self._note(message_id, envelope, "refused")
            return "451 4.3.2 try again later"
        self._note(message_id, envelope, "accepted")
        if trouble is Trouble.LOST_ANSWER and isinstance(server.transport, asyncio.WriteTransport):
            server.transport.abort()
        return "250 2.0.0 accepted"

    def _note(self, message_id: str, envelope: Envelope, effect: str) -> None:
        line = {"message_id": message_id, "to": envelope.rcpt_tos, "effect": effect}
        os.write(self._log, json.dumps(line).encode() + b"\n")


async def serve(log_path: str) -> None:
    """Serve on a free port of the loopback address until the starter goes away (its end of our stdin closes)."""
    sink = Sink(log_path)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(sink, enable_SMTPUTF8=True, loop=loop), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1]))
