"""Attempts to preempt for Reservations: which fail, and what is remembered of them (reservation.md §11, §12)."""

from __future__ import annotations

from typing import Any

import msgspec
from support.builders import node, pod
from support.reservations import CONFIG, ReservationWorld, available
from support.world import Setup

from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.podinfo import PodInfo
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.status import Code, Status
from koordsched.plugins.reservation.plugin import ReservationPlugin

ENABLED = Setup(f"{CONFIG}  pluginConfig: [{{name: Reservation, args: {{enablePreemption: true}}}}]\n")


class Bench(ReservationWorld):
    """A node of four CPUs that a pod of priority 0 uses, and a Reservation of three that waits."""

    def __init__(self, setup: Setup = ENABLED, **spec: Any) -> None:
        super().__init__(setup)
        self.cache.set_node(node("n1").cpu("4").build())
        self.cache.set_pod(pod("low").uid("low").cpu("2").on("n1").info(counted_on_node=True), "n1")
        whole = msgspec.to_builtins(available("r", "n1", {"cpu": "3"}, **spec))
        del whole["status"]
        self.waits = msgspec.convert(whole, Reservation)
        self.informer(RESERVATION).store["r"] = self.waits
        self.plugin = next(plugin for plugin in self.profile.post_filter if isinstance(plugin, ReservationPlugin))

    async def attempt(self) -> tuple[PostFilterResult | None, Status | None]:
        info = self.signed(PodInfo.of_reservation(self.waits))
        found = self.find(info)
        assert isinstance(found, Diagnosis)
        return await self.plugin.post_filter(CycleState(), info, found)

    def end(self) -> None:
        for work in self.spawned:
            work.close()


async def test_it_is_nominated_for_the_node_whose_pods_go() -> None:
    bench = Bench()
    assert await bench.attempt() == (PostFilterResult("n1"), None)
    assert bench.said == ["attempted", "evicting 1"]
    bench.end()


async def test_nothing_is_evicted_while_evictions_for_it_are_under_way() -> None:
    bench = Bench()
    await bench.attempt()
    result, status = await bench.attempt()
    assert result is None
    assert status is not None
    assert status.reasons == ("preemption: not eligible due to a terminating pod on the nominated node.",)
    assert bench.said.count("evicting 1") == 1
    bench.end()


async def test_nothing_is_evicted_for_a_reservation_that_is_gone() -> None:
    for store in ({}, {"r": available("r", "n1", {"cpu": "3"}, metadata={"uid": "another"})}):
        bench = Bench()
        bench.informer(RESERVATION).store.clear()
        bench.informer(RESERVATION).store.update(store)
        result, status = await bench.attempt()
        assert result is None
        assert status is not None
        assert status.code is Code.ERROR
        assert "evicting 1" not in bench.said


async def test_one_of_no_higher_priority_says_so_without_an_attempt_too() -> None:
    bench = Bench(metadata={"labels": {"koordinator.sh/priority": "0"}})
    _, status = await bench.attempt()
    text = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert status is not None
    assert status.reasons == (text,)
    info = bench.signed(PodInfo.of_reservation(bench.waits))
    found = bench.find(info)
    assert isinstance(found, Diagnosis)
    assert bench.profile.message_of(info, found) == f"{found.message} {text}"
    assert not bench.plugin.may_help(info, found)


def test_it_is_not_asked_about_reserve_pods_unless_that_is_enabled() -> None:
    assert Bench().plugin.post_filters_reservations
    assert not Bench(Setup(CONFIG)).plugin.post_filters_reservations
