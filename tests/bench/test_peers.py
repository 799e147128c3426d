"""``make bench-peers`` without any peer: what it says of each, and what its table looks like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from peers import environments, run
from peers.catalogue import ABSENT, PEERS
from peers.facts import ADAPTERS, Peer
from peers.paper import markdown
from peers.places import address
from peers.rounds import Discipline, System, measure


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_says_all_that_its_figures_need(peer: Peer) -> None:
    said = peer.as_json()

    assert all(said.values())
    assert peer.version[0].isdigit()
    assert peer.best != peer.default
    assert (ADAPTERS / peer.adapter).is_file()
    assert peer.server == "redis" or peer.gate, "its start would be on the clock"


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_adapter_has_the_same_functions(peer: Peer) -> None:
    text = (ADAPTERS / peer.adapter).read_text()

    for name in ("CHUNK", "install(", "sender(", "work("):
        assert name in text


def test_every_adapter_belongs_to_a_peer() -> None:
    assert {path.name for path in ADAPTERS.iterdir() if path.is_file()} == {peer.adapter for peer in PEERS}


def test_a_peer_that_cannot_be_installed_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environments, "HOME", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    npm, newer, redis = (_peer(name) for name in ("pg-boss", "oban", "celery"))
    newer = replace(newer, python=(9, 9))

    there, absent = run.installed((npm, newer, redis), None, has_redis=False)

    assert there == []
    assert absent["pg-boss"] == "npm is not there"
    assert absent["oban"].startswith("it needs Python 9.9 or newer")
    assert absent["celery"] == "redis-server and redis-cli are not there"
    assert list(tmp_path.iterdir()) == []


def test_the_reason_is_the_error_and_no_address() -> None:
    text = "Looking\nERROR: nothing at https://example.org/x for y\nbye\n"

    assert environments.said(text) == "ERROR: nothing at (address) for y"


def test_the_table_has_median_spread_and_the_ratio_of_the_same_round() -> None:
    ours = iter([100.0, 200.0, 400.0])
    theirs = iter([50.0, 100.0, 100.0])
    table = Discipline(
        "drain",
        "jobs_per_s",
        [
            System("fencepost", lambda: {"jobs_per_s": next(ours)}),
            System("other", lambda: {"jobs_per_s": next(theirs)}),
        ],
    )

    measure([table], rounds=3)
    text = markdown(_figures(table))

    assert "| other | 100 (50 to 100) | 0.50 (0.25 to 0.50) | - |  |" in text
    assert "| fencepost | 200 (100 to 400) | 1.00 (1.00 to 1.00) | - |  |" in text


def test_a_system_that_fails_keeps_its_row_and_the_others_go_on() -> None:
    def fail() -> dict[str, float]:
        raise ValueError("no | luck")

    table = Discipline("drain", "jobs_per_s", [System("fencepost", lambda: {"jobs_per_s": 1.0}), System("other", fail)])

    measure([table], rounds=2)
    text = markdown(_figures(table))

    assert "| other | - | - | - | failed: ValueError: no \\| luck |" in text
    assert len(table.systems[0].found) == 2


def test_the_page_names_settings_what_is_not_done_and_who_is_absent() -> None:
    text = markdown(_figures(Discipline("latency", "p50_ms", [System("fencepost", lambda: {"p50_ms": 1.0})])))

    for peer in PEERS:
        assert f"**{peer.name}** {peer.version}" in text
        assert all(one in text for one in peer.not_done)
    for name, reason in ABSENT.items():
        assert f"- **{name}**: {reason}" in text


def test_a_socket_is_an_address_that_every_driver_reads() -> None:
    assert address("host=/a/b user=me port=5433 dbname=x", "y") == "postgresql://me@%2Fa%2Fb:5433/y"


def _peer(name: str) -> Peer:

    return replace(next(peer for peer in PEERS if peer.name == name))


def _figures(table: Discipline) -> dict[str, Any]:
    return {
        "machine": {
            "cores": 2,
            "machine": "Linux",
            "load": 0.1,
            "postgresql": "18.0",
            "settings": {"fsync": "on"},
            "python": "3.11",
            "psycopg": "3.3",
            "redis": "7",
            "fencepost": "0",
        },
        "options": {"rounds": 3, "jobs": 100, "window_s": 10.0, "bulk": 100, "singles": 20},
        "disciplines": {table.name: table.as_json()},
        "fencepost": {"best": ["--slots=32"], "does": "Everything."},
        "peers": {peer.name: peer.as_json() for peer in PEERS},
        "absent": ABSENT,
    }
