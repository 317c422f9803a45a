"""The gauge of nodes whose secondary devices are not well planned: deviceshare.md §14 and checklist item 28."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.plugins import WatchingBench

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.devices import Device
from koordsched.api.meta import ObjectMeta
from koordsched.plugins.deviceshare.planning import follow_planning

if TYPE_CHECKING:
    from collections.abc import Mapping

PLANNED = "node.koordinator.sh/secondary-device-well-planned"


class PlanningBench(WatchingBench):
    def __init__(self) -> None:
        super().__init__()
        follow_planning(self)
        self._versions = 0

    def label(self, name: str, labels: Mapping[str, str]) -> None:
        """Let the node's Device come, or have these labels."""
        self._versions += 1
        self.came(DEVICE, Device(metadata=ObjectMeta(name=name, labels=dict(labels), resource_version=str(self._versions))))

    def shown(self) -> dict[tuple[str, ...], float]:
        gauge = self.metrics.gauge("scheduler_secondary_device_not_well_planned", "", ("node_name",))
        return dict(gauge.values)


def test_a_node_is_shown_as_long_as_its_device_says_false() -> None:
    bench = PlanningBench()
    bench.label("n1", {PLANNED: "false"})
    bench.label("n2", {PLANNED: "true"})
    bench.label("n3", {})
    assert bench.shown() == {("n1",): 1}
    bench.label("n1", {PLANNED: "true"})
    bench.label("n3", {PLANNED: "false"})
    assert bench.shown() == {("n3",): 1}
    bench.went(DEVICE, "n3")
    assert bench.shown() == {}


def test_two_profiles_make_one_gauge() -> None:
    bench = PlanningBench()
    follow_planning(bench)
    bench.label("n1", {PLANNED: "false"})
    assert bench.shown() == {("n1",): 1}
