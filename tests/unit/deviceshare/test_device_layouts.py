"""Devices in short, and the Devices that are made of them."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.api.kinds import DEVICE
from koordsched.api.validation import decode
from koordsched.plugins.deviceshare.layouts import MOST, complete_device, device_manifest


def devices(**fields: str) -> list[Any]:
    made = device_manifest("n1", **fields)
    assert decode(DEVICE, made).metadata.name == "n1"
    return list(made["spec"]["devices"])


def places(**fields: str) -> list[tuple[str, int, int, str]]:
    return [(each["type"], each["minor"], each["topology"]["nodeID"], each["topology"]["pcieID"]) for each in devices(**fields)]


def test_minors_count_through_the_machine() -> None:
    assert places(gpus="2x1x2") == [("gpu", 0, 0, "p0"), ("gpu", 1, 0, "p0"), ("gpu", 2, 1, "p1"), ("gpu", 3, 1, "p1")]
    assert places(nics="1x2x1") == [("rdma", 0, 0, "p0"), ("rdma", 1, 0, "p1")]


def test_a_number_alone_says_nothing_about_places() -> None:
    assert [each.get("topology") for each in devices(gpus="2")] == [None, None]


def test_every_type_offers_its_resources() -> None:
    gpu, nic, fpga = devices(fpgas="1", nics="1", gpus="1,24Gi")
    offered = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "24Gi", "koordinator.sh/gpu-memory-ratio": "100"}
    assert (gpu["type"], gpu["resources"], gpu["health"], gpu["id"]) == ("gpu", offered, True, "GPU-0")
    assert (nic["type"], nic["resources"], nic["id"]) == ("rdma", {"koordinator.sh/rdma": "100"}, "0000:80:00.0")
    assert (fpga["type"], fpga["resources"]) == ("fpga", {"koordinator.sh/fpga": "100"})


def test_virtual_functions_have_addresses_of_their_interface() -> None:
    _, nic = devices(nics="2,9")
    buses = [vf["busID"] for group in nic["vfGroups"] for vf in group["vfs"]]
    assert buses == [f"0000:81:00.{number}" for number in range(1, 8)] + ["0000:81:01.0", "0000:81:01.1"]


def test_what_the_object_lists_stands_behind() -> None:
    body = {"kind": "Device", "metadata": {"name": "n1"}, "gpus": "1", "spec": {"devices": [{"type": "xpu", "minor": 7, "health": True}]}}
    assert complete_device("gpus", body)["spec"]["devices"] == [*devices(gpus="1"), {"type": "xpu", "minor": 7, "health": True}]


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("gpus", "2x2", "expected NUMAxPCIExGPUS"),
        ("gpus", "2x2x2,lots", "lots"),
        ("gpus", "0", "0 devices, expected 1 to"),
        ("nics", "2x2x1,many", "maybe the VFs of each"),
        ("nics", f"{MOST + 1}", f"{MOST + 1} devices"),
        ("fpgas", "x", "expected NUMAxPCIExFPGAS"),
    ],
)
def test_what_is_no_layout_is_named(field: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        device_manifest("n1", **{field: text})
    assert str(raised.value).startswith(f"{field}: '{text}'")
