"""What scenarios expect of the devices that pods hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koordsched.manifests.strict import StrictReader
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.plugins.deviceshare.tooling import DEVICE_ALLOCATED, device_differences, read_devices, whole_devices_of

CORE, RATIO, RDMA = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/rdma"
HELD = {
    "gpu": [{"minor": 2, "resources": {CORE: "50", RATIO: "50"}, "extension": {"gpuSharedResourceTemplate": "vir02"}}],
    "rdma": [
        {"resources": {RDMA: 100}, "extension": {"vfs": [{"minor": -1, "busID": "0000:80:00.2"}]}},
        {"minor": 1, "resources": {RDMA: "100"}},
    ],
}
NODE = device_manifest("n1", gpus="2x1x2", nics="2x1x1")


def pod(annotation: Any) -> dict[str, Any]:
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    return {"metadata": {"name": "a", "annotations": {DEVICE_ALLOCATED: text}}}


def said(rule: Any, annotation: Any = HELD) -> list[str]:
    reader = StrictReader("f")
    read = read_devices(reader, rule, "devices")
    assert reader.mistakes == []
    return list(device_differences(read, pod(annotation), NODE))


def test_minors_are_listed_in_the_order_of_allocation_and_types_must_all_be_named() -> None:
    assert said({"gpu": [2], "rdma": [0, 1]}) == []
    assert said({"gpu": [2], "rdma": [1, 0]}) == ["rdma [1, 0]"]
    assert said({"gpu": [2]}) == ["no device of type rdma"]
    assert said({}, {}) == []
    assert said({}) == ["no device of type gpu", "no device of type rdma"]
    assert said({"gpu": [0]}, "{") == ["gpu [0]"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"minors": [2], "count": 1, "numa": [1], "pcie": ["p1"], "each": {CORE: 50}, "vfs": [], "template": "vir02"}, None),
        ({"count": 2}, "2 devices of type gpu"),
        ({"numa": [0, 1]}, "gpu of NUMA node 0,1"),
        ({"pcie": ["p0"]}, "gpu of PCIe p0"),
        ({"each": {CORE: "50", RATIO: 51}}, f"{CORE} 50, {RATIO} 51 of each gpu"),
        ({"template": ""}, "gpu by template ''"),
    ],
)
def test_facts_of_devices(rule: Any, expected: str | None) -> None:
    assert said({"gpu": rule, "rdma": [0, 1]}) == ([] if expected is None else [expected])


def test_virtual_functions_are_those_of_all_devices_in_order() -> None:
    assert said({"gpu": [2], "rdma": {"vfs": ["0000:80:00.2"]}}) == []
    assert said({"gpu": [2], "rdma": {"vfs": []}}) == ["rdma with virtual functions none"]


def test_mistakes_are_named() -> None:
    reader = StrictReader("f")
    read_devices(reader, {"gpu": {"minor": [1]}, "rdma": {"each": {RDMA: "lots"}}, "fpga": {}, "xpu": "0"}, "devices")
    assert [mistake.split(": ", 1)[1].split(":")[0] for mistake in reader.mistakes] == [
        "devices.gpu.minor",
        "devices.rdma.each.koordinator.sh/rdma",
        "devices.fpga",
        "devices.xpu",
    ]


def test_devices_held_to_a_hundred_percent() -> None:
    assert whole_devices_of(pod(HELD)) == {("rdma", 0), ("rdma", 1)}
    assert whole_devices_of(pod("{")) == whole_devices_of(pod([1])) == whole_devices_of(pod({"gpu": 3})) == frozenset()
