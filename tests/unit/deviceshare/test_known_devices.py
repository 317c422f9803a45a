"""Devices that say the same, but for their ids, are read once for all nodes, and what is wrong with one is said of each node."""

from __future__ import annotations

from typing import Any

import pytest
from support.devices import device

from koordsched._core.device_facts import DeviceType
from koordsched.api.koordinator.devices import Device
from koordsched.plugins.deviceshare import node_devices
from koordsched.plugins.deviceshare.node_devices import KnownDevices, describe_device

GPU: dict[str, Any] = {
    "type": "gpu",
    "id": "GPU-1",
    "minor": 0,
    "health": True,
    "labels": {"model": "a"},
    "resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "80Gi"},
    "topology": {"socketID": 0, "nodeID": 1, "pcieID": "p1", "busID": "0000:01:00.0"},
    "vfGroups": [{"labels": {"use": "a"}, "vfs": [{"minor": 1, "busID": "0000:01:00.1"}]}],
}


def one(name: str = "n1", **fields: Any) -> Device:
    return device(name, more=[{**GPU, **fields}])


def test_equal_devices_of_several_nodes_share_their_facts() -> None:
    known = KnownDevices()
    first, second = (describe_device(device(name, gpus="2x2x2", nics="2x2x1,4"), {}, known=known).devices for name in ("n1", "n2"))
    assert first == second == describe_device(device("n3", gpus="2x2x2", nics="2x2x1,4"), {}).devices
    for device_type, facts in first.devices.items():
        assert [id(each) for each in facts] == [id(each) for each in second.devices[device_type]]


def test_devices_share_what_is_said_of_equal_ones_and_keep_their_ids() -> None:
    known = KnownDevices()
    first, second = (known.share(one(name, id=f"GPU-{name}")).spec.devices[0] for name in ("n1", "n2"))
    assert (first.id, second.id) == ("GPU-n1", "GPU-n2")
    for part in ("labels", "resources", "topology", "vf_groups"):
        assert getattr(first, part) is getattr(second, part)
    elsewhere = known.share(one("n3", topology={**GPU["topology"], "busID": "0000:02:00.0"})).spec.devices[0]
    assert elsewhere.topology is not None
    assert (elsewhere.topology.bus_id, elsewhere.resources is first.resources) == ("0000:02:00.0", True)


@pytest.mark.parametrize(
    "fields",
    [
        {"minor": 1},
        {"health": False},
        {"labels": {"model": "b"}},
        {"resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "40Gi"}},
        {"resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": "80Gi"}},
        {"topology": {"socketID": 0, "nodeID": 0, "pcieID": "p1"}},
        {"topology": {"socketID": 0, "nodeID": 1, "pcieID": "p2"}},
        {"topology": None},
        {"vfGroups": []},
        {"vfGroups": [{"labels": {"use": "b"}, "vfs": [{"minor": 1, "busID": "0000:01:00.1"}]}]},
        {"id": "GPU-2"},
    ],
    ids=str,
)
def test_a_device_is_read_as_if_no_other_one_had_been(fields: dict[str, Any]) -> None:
    known = KnownDevices()
    for made in (one(), one("n2", **fields), one("n3")):
        assert known.share(made) == made
        assert describe_device(known.share(made), {}, known=known) == describe_device(made, {})
        assert describe_device(made, {}, gone=True, known=known) == describe_device(made, {}, gone=True)


def test_a_mistake_is_said_of_every_node() -> None:
    known, wrong = KnownDevices(), {"resources": {"koordinator.sh/gpu-core": "-1"}}
    said = [describe_device(one(name, **wrong), {}, known=known).problems for name in ("n1", "n2")]
    assert said == [['spec.devices[0].resources.koordinator.sh/gpu-core: less than nothing, so it counts as 0: "-1"']] * 2


def test_what_is_known_of_devices_that_all_differ_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_devices, "MAX_KEPT", 10)
    known = KnownDevices()
    for minor in range(25):
        found = describe_device(known.share(one(minor=minor)), {}, known=known).devices
        assert [facts.minor for facts in found.devices[DeviceType.GPU]] == [minor]
        assert len(known._read) <= 10
        assert len(known._parts) <= 10
