"""The fault proxy leaves nothing behind."""

from __future__ import annotations

import gc
import socket
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from fencepost.testing.proxy import Proxy


def test_a_proxy_that_ends_while_somebody_connects_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[SimpleNamespace] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    for _ in range(40):
        made = Proxy("host=127.0.0.1 port=1 user=nobody dbname=none")
        with ExitStack() as stack:
            for _ in range(8):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", made.port))
            made.close()

    gc.collect()
    assert complaints == []
