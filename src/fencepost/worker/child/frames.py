"""Frames between a worker process and its job processes: a length, then JSON. One job in flight each."""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any

_HEAD = struct.Struct("!I")
MOST = 16 * 1024 * 1024


class Gone(Exception):  # noqa: N818 - says what happened
    """The other side ended."""


class Channel:
    """Blocking; one reader at a time, and one writer at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._rest = b""
        self._poll = select.poll()  # not select: a process may have more than 1024 descriptors
        self._poll.register(sock, select.POLLIN)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises Gone."""
        data = json.dumps(message).encode()
        try:
            self.sock.sendall(_HEAD.pack(len(data)) + data)
        except OSError as error:
            raise Gone from error

    def receive(self, within: float | None = None) -> dict[str, Any] | None:
        """The next message; None if none came in so many seconds. Raises Gone."""
        while True:
            if len(self._rest) >= _HEAD.size:
                (size,) = _HEAD.unpack_from(self._rest)
                if size > MOST:
                    raise Gone
                if len(self._rest) >= _HEAD.size + size:
                    data = self._rest[_HEAD.size : _HEAD.size + size]
                    self._rest = self._rest[_HEAD.size + size :]
                    found: dict[str, Any] = json.loads(data)
                    return found
            try:
                if within is not None and not self._poll.poll(within * 1000):
                    return None
                more = self.sock.recv(262_144)
            except OSError as error:
                raise Gone from error
            if not more:
                raise Gone
            self._rest += more

    def close(self) -> None:
        """Close our end."""
        self.sock.close()
