"""Faults of networks, made by the doors: silence, resets, half-open sockets, answers that are lost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fencepost.testing.proxy import Proxy
from fencepost.testing.torture.ground import Door
from fencepost.testing.torture.world import Hit, World


def freeze_network(world: World) -> Iterator[Hit]:
    """Nothing passes for longer than a lease, and nobody is told."""
    with _door(world) as (door, hit):
        if door is not None and hit is not None:
            door.each(Proxy.hold)
            try:
                yield hit
                world.wait(world.settings.ttl * world.dice.uniform(0.5, 1.6))
            finally:
                door.each(Proxy.release)


def half_open(world: World) -> Iterator[Hit]:
    """The server's ends are gone; the workers' ends stay open and silent. Of the clients' only one: it waits for long."""
    with _door(world) as (door, hit):
        if door is not None and hit is not None:
            most = 1 if door is world.crew.door else None
            door.each(lambda proxy: proxy.half_open(most))
            yield hit
            world.wait(0.5)


def cut(world: World) -> Iterator[Hit]:
    """Every connection of the door is reset."""
    with _door(world) as (door, hit):
        if door is not None and hit is not None:
            door.each(Proxy.cut)
            yield hit
            world.wait(0.5)


def lose_answers(world: World) -> Iterator[Hit]:
    """The next calls are carried out, and their answers lost: claims, beats, outcomes, enqueues."""
    with _door(world, client=0.4) as (door, hit):
        if door is not None and hit is not None:
            door.each(lambda proxy: proxy.lose_answers(4))
            yield hit
            world.wait(1.0)
            door.each(Proxy.keep_answers)


@contextlib.contextmanager
def _door(world: World, client: float = 0.15) -> Iterator[tuple[Door | None, Hit | None]]:
    """A squad's door while it runs something, or now and then the client's."""
    with world.squad() as (squad, runs):
        if squad is None:
            yield None, None
        elif world.dice.random() < client and world.client.acquire(blocking=False):
            try:
                yield world.crew.door, Hit.of("the client's connections", world.runs())
            finally:
                world.client.release()
        else:
            yield squad.door, Hit.of(f"connections of squad {squad.number}", runs)
