"""Devices of a node in short, for manifests and scenarios: `gpus`, `nics` and `fpgas` at the top level of a Device.

`gpus: 2x2x2,80Gi` are 2 NUMA nodes of 2 PCIe switches of 2 GPUs of 80Gi each; `gpus: 8` are eight of which nothing says where they are.
`nics: 2x2x1,4` are RDMA interfaces in the same way, each with 4 virtual functions. Minors count through the whole node, PCIe ids are p0, p1
and so on, and all devices are healthy (deviceshare.md §2, §16). What `spec.devices` lists stands behind them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from koordsched.api.kinds import DEVICE
from koordsched.api.quantity import QuantityError, value
from koordsched.framework.tooling import ShortForm
from koordsched.manifests.completion import Json, mapping

MEMORY = "80Gi"
MOST = 1024
PLACES = r"(?P<places>[0-9]{1,4}(?:x[0-9]{1,4}x[0-9]{1,4})?)"
VFS_OF_A_SLOT = 8


class DeviceLayout(msgspec.Struct, frozen=True):
    """How the devices of one type are arranged: NUMA nodes, PCIe switches a NUMA node, devices a switch. switches 0: without topology."""

    numa_nodes: int
    switches: int
    devices: int

    @classmethod
    def parse(cls, text: str) -> DeviceLayout:
        """Read `NxPxD`, or `D`, which must match `PLACES`. ValueError: there are too many, or none."""
        numbers = [int(number) for number in text.split("x")]
        layout = cls(*numbers) if len(numbers) > 1 else cls(1, 0, *numbers)
        if not 0 < layout.count <= MOST:
            raise ValueError(f"{text!r}: {layout.count} devices, expected 1 to {MOST}")
        return layout

    @property
    def count(self) -> int:
        return self.numa_nodes * max(self.switches, 1) * self.devices

    def entries(self, device_type: str, first_bus: int, resources: Mapping[str, str]) -> Iterator[Json]:
        """Yield an entry of `spec.devices` for each, without `id`. first_bus: the PCI bus of minor 0, those of the others follow."""
        for minor in range(self.count):
            entry = {"type": device_type, "minor": minor, "health": True, "resources": dict(resources)}
            if self.switches:
                switch = minor // self.devices
                numa = switch // self.switches
                bus = f"0000:{first_bus + minor:02x}:00.0"
                entry["topology"] = {"socketID": numa, "nodeID": numa, "pcieID": f"p{switch}", "busID": bus}
            yield entry


def gpus(text: str) -> list[Json]:
    """Make the entries of `gpus`: `NxPxD` or `D`, with `,MEMORY` behind it for another memory than 80Gi."""
    match = re.fullmatch(PLACES + r"(?:,(?P<memory>\S+))?", text)
    if match is None:
        raise ValueError(f"{text!r}: expected NUMAxPCIExGPUS such as 2x2x2, or a number of GPUs, and maybe their memory: 2x2x2,80Gi")
    memory = match["memory"] or MEMORY
    try:
        value(memory)
    except QuantityError as error:
        raise ValueError(f"{text!r}: {error}") from None
    resources = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": memory, "koordinator.sh/gpu-memory-ratio": "100"}
    entries = DeviceLayout.parse(match["places"]).entries("gpu", 1, resources)
    return [{**entry, "id": f"GPU-{entry['minor']}"} for entry in entries]


def nics(text: str) -> list[Json]:
    """Make the entries of `nics`: `NxPxD` or `D`, with `,V` behind it where each has V virtual functions."""
    match = re.fullmatch(PLACES + r"(?:,(?P<vfs>[0-9]{1,3}))?", text)
    if match is None:
        raise ValueError(f"{text!r}: expected NUMAxPCIExNICS such as 2x2x1, or a number of them, and maybe the VFs of each: 2x2x1,8")
    made = []
    for entry in DeviceLayout.parse(match["places"]).entries("rdma", 0x80, {"koordinator.sh/rdma": "100"}):
        bus = f"0000:{0x80 + entry['minor']:02x}"
        entry["id"] = f"{bus}:00.0"
        if match["vfs"]:
            numbers = range(1, int(match["vfs"]) + 1)
            vfs = [{"minor": -1, "busID": f"{bus}:{number // VFS_OF_A_SLOT:02x}.{number % VFS_OF_A_SLOT}"} for number in numbers]
            entry["vfGroups"] = [{"vfs": vfs}]
        made.append(entry)
    return made


def fpgas(text: str) -> list[Json]:
    """Make the entries of `fpgas`: `NxPxD` or `D`."""
    if re.fullmatch(PLACES, text) is None:
        raise ValueError(f"{text!r}: expected NUMAxPCIExFPGAS such as 2x1x2, or a number of them")
    entries = DeviceLayout.parse(text).entries("fpga", 0xC0, {"koordinator.sh/fpga": "100"})
    return [{**entry, "id": f"FPGA-{entry['minor']}"} for entry in entries]


FIELDS: Mapping[str, Callable[[str], list[Json]]] = {"fpgas": fpgas, "nics": nics, "gpus": gpus}
"""What makes the entries of each field. Each puts its own before those that are there, so GPUs come first in the object."""


def complete_device(field: str, body: Mapping[str, Any]) -> Json:
    """Replace a short field, if it is there, by entries of `spec.devices`. ValueError: it cannot be read."""
    made: Json = {"apiVersion": DEVICE.api_version, **body}
    if field in made:
        try:
            entries = FIELDS[field](str(made.pop(field)))
        except ValueError as mistake:
            raise ValueError(f"{field}: {mistake}") from None
        spec = mapping(made.get("spec"))
        listed = spec.get("devices") or []
        made["spec"] = {**spec, "devices": [*entries, *listed]} if isinstance(listed, list) else spec
    return made


def device_manifest(name: str, **fields: str) -> Json:
    """Return the Device of a node. fields: `gpus`, `nics` and `fpgas`."""
    made: Json = {"kind": DEVICE.kind, "metadata": {"name": name}, **fields}
    for field in FIELDS:
        made = complete_device(field, made)
    return made


SHORT_FORMS = tuple(
    ShortForm(DEVICE, field, lambda found, field=field: FIELDS[field](str(found)), partial(complete_device, field))  # type: ignore[misc]
    for field in FIELDS
)
