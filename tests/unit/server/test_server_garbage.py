"""When garbage is collected, and what the collector looks at."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest
from support.builders import node, pod
from support.virtual_loop import run_virtual

from koordsched.api.core import Pod
from koordsched.api.koordinator.devices import DeviceSpec
from koordsched.api.meta import Api
from koordsched.api.podinfo import PodInfo
from koordsched.api.sharing import SharedObjectMeta, SharedPodSpec
from koordsched.cache.cache import Cache
from koordsched.clock import VirtualClock
from koordsched.server.garbage import SWEEP_SECONDS, SWEEPS_TO_ALL, SWEEPS_TO_YOUNG, sweep


def collections(monkeypatch: pytest.MonkeyPatch, sweeps: int, *, busy: bool) -> list[int]:
    """Return which generations were collected in so many sweeps."""
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda generation=2: collected.append(generation))

    async def main(_: VirtualClock) -> None:
        task = asyncio.create_task(sweep(lambda: busy))
        await asyncio.sleep(SWEEP_SECONDS * (sweeps + 0.5))
        task.cancel()
        await asyncio.wait([task])

    run_virtual(main)
    return collected


def test_young_garbage_is_collected_often_and_all_of_it_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collections(monkeypatch, SWEEPS_TO_ALL + 1, busy=False) == [1] * (SWEEPS_TO_ALL - 1) + [2, 1]


def test_while_pods_are_on_their_way_little_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what they are made of, the second generation may hold thousands: a sweep that began with 3,000 binds held the loop for 29 ms."""
    nearly = [0] * (SWEEPS_TO_YOUNG - 1)
    assert collections(monkeypatch, 2 * SWEEPS_TO_YOUNG + 1, busy=True) == [*nearly, 1, *nearly, 1, 0]


def test_a_pod_of_the_cache_costs_a_collection_two_objects() -> None:
    """Its PodInfo, and the dict of its node's pods. The Structs of the API are trees: no collection can find anything among them."""
    bodies = [
        msgspec.json.encode(
            pod(f"p{number}").label("app", "web").request("cpu", "1").annotation("a", "b").tolerates("dedicated", "gpu").on("n").build()
        )
        for number in range(100)
    ]
    cache, decoder = Cache(), msgspec.json.Decoder(Pod)
    cache.set_node(node("n").build())
    cache.set_pod(PodInfo(pod("first").on("n").build(), counted_on_node=True), "n")
    gc.collect()
    before = len(gc.get_objects())
    for body in bodies:
        found = decoder.decode(body)
        cache.set_pod(PodInfo(found, counted_on_node=True), found.spec.node_name)
    gc.collect()  # tuples of what is not looked at are found out at the first collection, and not looked at any more
    assert len(gc.get_objects()) - before < 2 * len(bodies)


def subclasses(kind: type[Any]) -> list[type[Any]]:
    children: list[type[Any]] = kind.__subclasses__()
    return [each for child in children for each in (child, *subclasses(child))]


def test_no_struct_of_the_api_is_looked_at_by_the_collector() -> None:
    looked_at = [kind for kind in subclasses(Api) if kind.__flags__ & 1 << 14]  # CPython's Py_TPFLAGS_HAVE_GC
    assert {kind for kind in looked_at if kind.__module__.startswith("koordsched.")} == {SharedPodSpec, SharedObjectMeta, DeviceSpec}
