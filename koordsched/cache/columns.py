"""The names of the node table's columns and ids: resources, labels, taints, images, host ports.

`_core.NodeTable` knows rows and numbers; here is what they mean. Strings are interned on first use and keep their id as long as the process
lives, except for images and host ports, whose bit columns are given back when no node has them any more. Id 0 always means "absent".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import Change
from koordsched._core.table import NodeTable, Request
from koordsched.api.core import Taint
from koordsched.cache.shared import Shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import ContainerImage, Node
    from koordsched.api.resources import HostPort, PodResources

LABELS = int(Change.LABELS)
TAINTS = int(Change.TAINTS)
PORTS = int(Change.PORTS)
IMAGES = int(Change.IMAGES)

CORDON = Taint(key="!unschedulable", effect="")  # spec.unschedulable as part of a taint set; no API object can carry this key

BASE_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")  # resource ids 0..3, as in _core/table.pxd

MAX_REQUESTS = 100_000  # distinct requests kept for sharing: pods that all differ must not fill the memory


class Vocabulary:
    """Strings with dense ids from 1 on; 0 stands for absent."""

    __slots__ = ("ids", "names")

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self.ids: dict[str, int] = {}

    def __len__(self) -> int:
        """Return one more than the largest id."""
        return len(self.names)

    def intern(self, name: str) -> int:
        found = self.ids.get(name)
        if found is None:
            found = self.ids[name] = len(self.names)
            self.names.append(name)
        return found


class LabelColumn:
    """One node label: `attribute` is its column in the table, `values` gives its values ids. Also a topology key's domain ids."""

    __slots__ = ("attribute", "values")

    def __init__(self, attribute: int) -> None:
        self.attribute = attribute
        self.values = Vocabulary()


class Image:
    """An image name that at least one node has: its bit column and its size on the first node that reported it."""

    __slots__ = ("bit", "size")

    def __init__(self, bit: int, size: int) -> None:
        self.bit = bit
        self.size = size


class Columns:
    """A node table with the meaning of its ids. The cache writes; plugins read."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.shared = Shared()
        self.resources: dict[str, int] = {name: index for index, name in enumerate(BASE_RESOURCES)}
        self.resource_names: list[str] = list(BASE_RESOURCES)
        self.taint_set_attribute = self.table.new_attribute()
        self.name_column = LabelColumn(self.table.new_attribute())  # the node's name, for metadata.name selectors
        self.labels: dict[str, LabelColumn] = {}
        self.taints: list[Taint] = []  # distinct by (key, value, effect)
        self.taint_sets: list[tuple[int, ...]] = [()]  # taint-set id -> indices into `taints`, in the node's order
        self.images: dict[str, Image] = {}
        self.images_version = 0  # counts changes of any node's images
        self.ports: dict[HostPort, int] = {}  # host port in use somewhere -> bit column
        self.ports_by_number: dict[tuple[str, int], dict[HostPort, int]] = {}  # the same by (protocol, port)
        self._taint_ids: dict[tuple[str, str, str], int] = {}
        self._taint_set_ids: dict[tuple[int, ...], int] = {(): 0}
        self._shared_ports: dict[tuple[int, HostPort], int] = {}  # pods of a row beyond the first that use the same port
        self._requests: dict[PodResources, Request] = {}

    # Resources

    def resource(self, name: str) -> int:
        """Return the resource's id, making its columns on first use."""
        found = self.resources.get(name)
        if found is None:
            found = self.resources[name] = len(self.resource_names)
            self.resource_names.append(name)
            self.table.ensure_resources(found + 1)
        return found

    def request(self, resources: PodResources) -> Request:
        """Return what a pod adds to a row; equal resources share one."""
        found = self._requests.get(resources)
        if found is None:
            if len(self._requests) >= MAX_REQUESTS:
                self._requests.clear()
            found = self._requests[resources] = self._new_request(resources)
        return found

    def _new_request(self, resources: PodResources) -> Request:
        amounts = {0: 1} | {self.resource(name): amount for name, amount in resources.requests.items() if amount > 0}
        ids = sorted(amounts)
        return Request(ids, [amounts[i] for i in ids], resources.nonzero_cpu, resources.nonzero_memory)

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        self.table.set_allocatable(row, {self.resource(name): amount for name, amount in amounts.items()})

    # Labels, name, taints

    def label(self, key: str) -> LabelColumn:
        """Return the label's column, making it on first use."""
        found = self.labels.get(key)
        if found is None:
            found = self.labels[key] = LabelColumn(self.table.new_attribute())
        return found

    def set_name(self, row: int, name: str) -> None:
        self.table.set_attribute(self.name_column.attribute, row, self.name_column.values.intern(name), LABELS)

    def set_labels(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Write the row's labels, given what it had."""
        for key in old.keys() - new.keys():
            self.table.set_attribute(self.label(key).attribute, row, 0, LABELS)
        for key, value in new.items():
            if old.get(key) != value:
                column = self.label(key)
                self.table.set_attribute(column.attribute, row, column.values.intern(value), LABELS)

    def set_taints(self, row: int, taints: Iterable[Taint]) -> None:
        ids = tuple(self._taint(taint) for taint in taints)
        found = self._taint_set_ids.get(ids)
        if found is None:
            found = self._taint_set_ids[ids] = len(self.taint_sets)
            self.taint_sets.append(ids)
        self.table.set_attribute(self.taint_set_attribute, row, found, TAINTS)

    def _taint(self, taint: Taint) -> int:
        key = (taint.key, taint.value, taint.effect)
        found = self._taint_ids.get(key)
        if found is None:
            found = self._taint_ids[key] = len(self.taints)
            self.taints.append(taint)
        return found

    # Images

    def set_images(self, row: int, old: tuple[ContainerImage, ...], new: tuple[ContainerImage, ...]) -> None:
        """Write the row's images, given what it had. The size of a name is that of the first node that reported it (framework.md §4)."""
        if old == new:
            return
        before = {name for image in old for name in image.names}
        after = {name: image.size_bytes for image in new for name in image.names}
        for name in before - after.keys():
            self._drop_image(row, name)
        for name in after.keys() - before:
            self._put_image(row, name, after[name])
        self.images_version += 1
        self.table.mark(row, IMAGES)

    def _put_image(self, row: int, name: str, size: int) -> None:
        image = self.images.get(name)
        if image is None:
            image = self.images[name] = Image(self.table.new_bit(), size)
        self.table.set_bit(image.bit, row)

    def _drop_image(self, row: int, name: str) -> None:
        image = self.images[name]
        self.table.clear_bit(image.bit, row)
        if self.table.count_bits(image.bit) == 0:
            self.table.free_bit(image.bit)
            del self.images[name]

    # Host ports

    def use_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            bit = self.ports.get(port)
            if bit is None:
                bit = self._new_port(port)
            if self.table.has_bit(bit, row):
                self._shared_ports[row, port] = self._shared_ports.get((row, port), 0) + 1
            else:
                self.table.set_bit(bit, row)
                self.table.mark(row, PORTS)

    def free_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            others = self._shared_ports.get((row, port), 0)
            if others > 1:
                self._shared_ports[row, port] = others - 1
            elif others == 1:
                del self._shared_ports[row, port]
            else:
                self._clear_port(row, port)

    def _new_port(self, port: HostPort) -> int:
        bit = self.ports[port] = self.table.new_bit()
        self.ports_by_number.setdefault((port.protocol, port.port), {})[port] = bit
        return bit

    def _clear_port(self, row: int, port: HostPort) -> None:
        bit = self.ports[port]
        self.table.clear_bit(bit, row)
        self.table.mark(row, PORTS)
        if self.table.count_bits(bit) == 0:
            self.table.free_bit(bit)
            del self.ports[port]
            self._forget_port(port)

    def _forget_port(self, port: HostPort) -> None:
        number = (port.protocol, port.port)
        del self.ports_by_number[number][port]
        if not self.ports_by_number[number]:
            del self.ports_by_number[number]

    # Nodes

    def write_node(self, row: int, old: Node | None, new: Node, allocatable: Mapping[str, int]) -> None:
        """Write all facts of a node to its row; the row becomes live. `old` is what the row was last written with."""
        if old is None:
            self.set_name(row, new.metadata.name)
        self.set_allocatable(row, allocatable)
        self.set_labels(row, old.metadata.labels if old else {}, new.metadata.labels)
        self.set_taints(row, effective_taints(new))
        self.set_images(row, old.status.images if old else (), new.status.images)
        self.table.set_live(row, True)

    def erase(self, row: int, old: Node | None) -> None:
        """Forget every fact of a row, whatever it is, so that a row found wrong can be written anew. `old` is as for `write_node`."""
        self.table.set_live(row, False)
        self.set_allocatable(row, {})
        self.set_labels(row, old.metadata.labels if old is not None else {}, {})
        self.set_taints(row, ())
        for port in [port for port, bit in self.ports.items() if self.table.has_bit(bit, row)]:
            self._clear_port(row, port)
        for name in [name for name, image in self.images.items() if self.table.has_bit(image.bit, row)]:
            self._drop_image(row, name)
        self.images_version += 1
        for shared in [shared for shared in self._shared_ports if shared[0] == row]:
            del self._shared_ports[shared]
        self.table.erase_row(row)
        self.table.mark(row, int(Change.ALL))

    def clear_node(self, row: int, old: Node) -> None:
        """Forget the node but not its pods: the row becomes a ghost."""
        self.table.set_live(row, False)
        self.set_allocatable(row, {})
        self.set_labels(row, old.metadata.labels, {})
        self.set_taints(row, ())
        self.set_images(row, old.status.images, ())


def effective_taints(node: Node) -> tuple[Taint, ...]:
    """Return the taints as the table keeps them: a cordoned node has `CORDON` as well, so that one id says all."""
    return (*node.spec.taints, CORDON) if node.spec.unschedulable else node.spec.taints
