"""The names of the node table's columns and ids: resources, labels, taints, images; and the host ports that pods use.

`_core.NodeTable` knows rows and numbers; here is what they mean. Columns and ids are made by what nodes have, and by what the
configuration and the topologies of nodes name (`resource`). A pod's names are only looked up, for any client may create pods: a resource
that no node offers has the column `ABSENT`, in which every row has 0, and a label that no node has has no column at all.

Columns and ids are counted by how many nodes have them. One that no node has any more stays for a while, since a node may come back with
it; when there are too many of these they are forgotten together, and only then may an id be used for another name. Id 0 is always "absent".

`generation` counts the moments at which a name got a column or lost it, or ids were forgotten: what was compiled to columns before must be
compiled anew. Caches of compiled things are emptied by a call (`call_when_renewed`), made within `write_node`, `clear_node` or `resource`.
`meanings` counts these moments, too, and each time that a forgotten id is used for another name, which no row had at that moment: what
is kept by the *names* of ids (does the selector match?) must be looked at again; what is kept by ids alone (pods in a domain) stays true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakKeyDictionary

from koordsched._core.change import NodeChange
from koordsched._core.table import NodeTable, Request
from koordsched.api.core import Taint
from koordsched.cache.host_ports import HostPorts
from koordsched.cache.plugin_state import Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from koordsched.api.core import ContainerImage, Node
    from koordsched.api.resources import PodResources

N = TypeVar("N")

LABELS = int(NodeChange.LABELS)
TAINTS = int(NodeChange.TAINTS)
IMAGES = int(NodeChange.IMAGES)

CORDON = Taint(key="!unschedulable", effect="")  # spec.unschedulable as part of a taint set; no API object can carry this key

NO_TAINT = Taint(key="", effect="")

BASE_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")  # resource ids 0..3, as in _core/table.pxd
ABSENT = len(BASE_RESOURCES)  # the column of every resource that no node offers: always 0

IDLE_COLUMNS = 16  # columns of resources and labels that no node has any more which are kept; one takes 4 to 16 bytes a row
IDLE_IDS = 1024  # ids of values, names and taints that are kept likewise, or as many as are in use if that is more


class Vocabulary(Generic[N]):
    """Dense ids from 1 on for what is held; 0 stands for absent. An id that is not held keeps its name until `forget_idle`."""

    __slots__ = ("_call_when_reused", "_free", "_uses", "idle", "ids", "names")

    def __init__(self, absent: N, call_when_reused: Callable[[], None]) -> None:
        self.names: list[N] = [absent]  # by id; `absent` for an id that is not in use
        self.ids: dict[N, int] = {}
        self.idle = 0  # ids with a name that are not held
        self._uses = [0]
        self._free: list[int] = []
        self._call_when_reused = call_when_reused

    def __len__(self) -> int:
        """Return one more than the largest id."""
        return len(self.names)

    def hold(self, name: N) -> int:
        """Return the name's id, which stays its own until as many `release` as `hold`."""
        found = self.ids.get(name)
        if found is None:
            found = self._new(name)
        elif not self._uses[found]:
            self.idle -= 1
        self._uses[found] += 1
        return found

    def _new(self, name: N) -> int:
        if self._free:
            found = self._free.pop()
            self.names[found] = name
            self._call_when_reused()
        else:
            found = len(self.names)
            self.names.append(name)
            self._uses.append(0)
        self.ids[name] = found
        return found

    def release(self, found: int) -> None:
        self._uses[found] -= 1
        if not self._uses[found]:
            self.idle += 1

    def has_too_many_idle(self) -> bool:
        return self.idle > max(IDLE_IDS, len(self.ids) // 2)

    def forget_idle(self) -> list[N]:
        """Forget the names that are not held, and return them: their ids will stand for others."""
        if not self.idle:
            return []
        forgotten = [name for name, found in self.ids.items() if not self._uses[found]]
        for name in forgotten:
            self.names[self.ids.pop(name)] = self.names[0]
        end = max(self.ids.values(), default=0) + 1
        del self.names[end:], self._uses[end:]
        used = set(self.ids.values())
        self._free = [found for found in range(end - 1, 0, -1) if found not in used]
        self.idle = 0
        return forgotten


class LabelColumn:
    """One node label: `attribute` is its column in the table, `values` gives its values ids. Also a topology key's domain ids."""

    __slots__ = ("attribute", "rows", "values")

    def __init__(self, attribute: int, call_when_reused: Callable[[], None]) -> None:
        self.attribute = attribute
        self.rows = 0  # that have the label
        self.values: Vocabulary[str] = Vocabulary("", call_when_reused)


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
        self.generation = 0
        self.meanings = 0
        self.resource_names: list[str] = [*BASE_RESOURCES, ""]  # by id; "" where there is none
        self.resources: dict[str, int] = {name: index for index, name in enumerate(BASE_RESOURCES)}
        self.table.ensure_resources(len(self.resource_names))
        self.taint_set_attribute = self.table.new_attribute()
        self.name_column = LabelColumn(self.table.new_attribute(), self._count_meaning)  # the node's name, for metadata.name selectors
        self.labels: dict[str, LabelColumn] = {}
        self.taints: Vocabulary[Taint] = Vocabulary(NO_TAINT, self._count_meaning)  # without the time at which they were added
        self.taint_sets: Vocabulary[tuple[int, ...]] = Vocabulary((), self._count_meaning)  # ids of taints, in the node's order
        self.images: dict[str, Image] = {}
        self.images_version = 0  # counts changes of any node's images
        self.host_ports = HostPorts(self.table)
        self._offering: dict[str, int] = {}  # nodes that offer a resource, 0 for one that is only named by the configuration or a topology
        self._offered: dict[int, frozenset[str]] = {}  # by row, without BASE_RESOURCES
        self._named: set[str] = set()
        self._idle: set[str] = set()  # resources that no node offers any more
        self._idle_labels: set[str] = set()
        self._free_resources: list[int] = []
        self._free_attributes: list[int] = []
        self._has_many_idle = False  # some vocabulary has
        self._requests: WeakKeyDictionary[PodResources, Request] = WeakKeyDictionary()
        self._recount: Callable[[Collection[str]], None] = _nothing_to_recount
        self._renewals: list[Callable[[], None]] = []

    # Generations

    def call_when_renewed(self, hook: Callable[[], None]) -> None:
        """Call the hook whenever `generation` has changed. It must live as long as the columns."""
        self._renewals.append(hook)

    def recount_with(self, recount: Callable[[Collection[str]], None]) -> None:
        """Set what counts pods' requests again, with `request`, when resources got a column or are about to lose theirs."""
        self._recount = recount

    def forget_unused(self) -> None:
        """Forget all columns and ids that no node has any more. Done by itself when there are many of them."""
        self._has_many_idle = False
        resources = {name: self.resources.pop(name) for name in self._idle}
        for name in resources:
            del self._offering[name]
        self._idle.clear()
        for key in self._idle_labels:
            self._free_attributes.append(self.labels.pop(key).attribute)
        self._idle_labels.clear()
        for column in (self.name_column, *self.labels.values()):
            column.values.forget_idle()
        for members in self.taint_sets.forget_idle():
            for taint in members:
                self.taints.release(taint)
        self.taints.forget_idle()
        self._renew(resources)
        for resource in resources.values():
            self.table.clear_resource(resource)
            self.resource_names[resource] = ""
            self._free_resources.append(resource)
        self._give_back()

    def _give_back(self) -> None:
        """Let the table be as narrow as what is in use allows."""
        while len(self.resource_names) - 1 in self._free_resources:
            self._free_resources.remove(len(self.resource_names) - 1)
            self.resource_names.pop()
        self.table.drop_last_resources(len(self.resource_names))
        count = self.table.attributes
        while count - 1 in self._free_attributes:
            count -= 1
            self._free_attributes.remove(count)
        self.table.drop_last_attributes(count)

    def _renew(self, resources: Collection[str]) -> None:
        """Begin a new generation. resources: those that got a column, or lost theirs (which still holds what is counted)."""
        self.generation += 1
        self.meanings += 1
        self._requests.clear()
        if resources:
            self._recount(resources)
        for hook in self._renewals:
            hook()

    def _count_meaning(self) -> None:
        self.meanings += 1

    def _forget_if_many(self) -> None:
        many_names = self.name_column.values.has_too_many_idle()  # plugins release names, too
        if many_names or self._has_many_idle or len(self._idle) + len(self._idle_labels) > IDLE_COLUMNS:
            self.forget_unused()

    # Resources

    def resource(self, name: str) -> int:
        """Return the id of a resource that the configuration or a node's topology names, making its column on first use; it stays."""
        if name not in self._named and name not in BASE_RESOURCES:
            self._named.add(name)
            self._idle.discard(name)
            self._offering.setdefault(name, 0)
        if name not in self.resources:
            self._new_resources([name])
        return self.resources[name]

    def resource_id(self, name: str) -> int:
        """Return the id of a resource that a pod names: ABSENT when no node offers it."""
        return self.resources.get(name, ABSENT)

    def _new_resources(self, names: Collection[str]) -> None:
        for name in names:
            if self._free_resources:
                found = self._free_resources.pop()
                self.resource_names[found] = name
            else:
                found = len(self.resource_names)
                self.resource_names.append(name)
                self.table.ensure_resources(found + 1)
            self.resources[name] = found
        self._renew(names)

    def request(self, resources: PodResources) -> Request:
        """Return what a pod adds to a row; equal resources share one. True for this generation only."""
        found = self._requests.get(resources)
        if found is None:
            found = self._requests[resources] = self.new_request(resources, resources.requests)
        return found

    def new_request(self, resources: PodResources, requests: Mapping[str, int]) -> Request:
        """Return a request of these amounts, which are all or some of what the pod asks for; names that no node offers come last."""
        known = self.resources
        offered = sorted([(known[name], name, amount) for name, amount in requests.items() if amount > 0 and name in known])
        absent = [(ABSENT, name, amount) for name, amount in requests.items() if amount > 0 and name not in known]
        ids, names, amounts = zip((0, "pods", 1), *offered, *absent, strict=True)
        return Request(ids, amounts, resources.nonzero_cpu, resources.nonzero_memory, names, len(absent))

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        new = frozenset([name for name, amount in amounts.items() if amount > 0 and name not in BASE_RESOURCES])
        old = self._offered.get(row, frozenset())
        if new != old:
            self._offer(row, old, new)
        self.table.set_allocatable(row, {self.resources[name]: amount for name, amount in amounts.items() if name in self.resources})

    def _offer(self, row: int, old: frozenset[str], new: frozenset[str]) -> None:
        for name in new - old:
            self._offering[name] = self._offering.get(name, 0) + 1
            self._idle.discard(name)
        for name in old - new:
            self._offering[name] -= 1
            if not self._offering[name] and name not in self._named:
                self._idle.add(name)
        if new:
            self._offered[row] = new
        else:
            self._offered.pop(row, None)
        unknown = [name for name in new if name not in self.resources]
        if unknown:
            self._new_resources(unknown)

    # Labels, name, taints

    def _hold_label(self, key: str) -> LabelColumn:
        found = self.labels.get(key)
        if found is None:
            attribute = self._free_attributes.pop() if self._free_attributes else self.table.new_attribute()
            found = self.labels[key] = LabelColumn(attribute, self._count_meaning)
            self._renew(())
        if not found.rows:
            self._idle_labels.discard(key)
        found.rows += 1
        return found

    def _release_label(self, key: str) -> LabelColumn:
        found = self.labels[key]
        found.rows -= 1
        if not found.rows:
            self._idle_labels.add(key)
        return found

    def set_labels(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Write the row's labels, given what it had."""
        for key in old.keys() - new.keys():
            column = self._release_label(key)
            self._set_value(column, row, column.values.ids[old[key]], 0)
        for key, value in new.items():
            if key not in old:
                column = self._hold_label(key)
                self._set_value(column, row, 0, column.values.hold(value))
            elif old[key] != value:
                column = self.labels[key]
                self._set_value(column, row, column.values.ids[old[key]], column.values.hold(value))

    def _set_value(self, column: LabelColumn, row: int, old: int, new: int) -> None:
        self.table.set_attribute(column.attribute, row, new, LABELS)
        if old:
            column.values.release(old)
            self._has_many_idle = self._has_many_idle or column.values.has_too_many_idle()

    def set_name(self, row: int, name: str) -> None:
        self._set_value(self.name_column, row, 0, self.name_column.values.hold(name))

    def set_taints(self, row: int, old: Iterable[Taint], new: Iterable[Taint]) -> None:
        """Write the row's taints, given what it had."""
        ids = tuple([self.taints.hold(_timeless(taint)) for taint in new])
        known = ids in self.taint_sets.ids
        found = self.taint_sets.hold(ids) if ids else 0
        if known or not ids:
            for taint in ids:
                self.taints.release(taint)  # the set holds them
        self.table.set_attribute(self.taint_set_attribute, row, found, TAINTS)
        before = tuple([self.taints.ids[_timeless(taint)] for taint in old])
        if before:
            self.taint_sets.release(self.taint_sets.ids[before])
            self._has_many_idle = self._has_many_idle or self.taint_sets.has_too_many_idle()

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

    # Nodes

    def write_node(self, row: int, old: Node | None, new: Node, allocatable: Mapping[str, int]) -> None:
        """Write all facts of a node to its row; the row becomes live. `old` is what the row was last written with."""
        if old is None:
            self.set_name(row, new.metadata.name)
        self.set_allocatable(row, allocatable)
        labels = {} if old is None else old.metadata.labels
        if labels != new.metadata.labels:
            self.set_labels(row, labels, new.metadata.labels)
        taints, new_taints = () if old is None else effective_taints(old), effective_taints(new)
        if taints != new_taints:
            self.set_taints(row, taints, new_taints)
        self.set_images(row, () if old is None else old.status.images, new.status.images)
        self.table.set_live(row, True)
        self._forget_if_many()

    def erase(self, row: int, old: Node | None) -> None:
        """Forget every fact of a row, whatever it is, so that a row found wrong can be written anew. `old` is as for `write_node`."""
        self.table.set_live(row, False)
        self.set_allocatable(row, {})
        if old is not None:
            self._forget_object(row, old)
        for name in [name for name, image in self.images.items() if self.table.has_bit(image.bit, row)]:
            self._drop_image(row, name)
        self.images_version += 1
        self.host_ports.erase(row)
        self.table.erase_row(row)
        self.table.mark(row, int(NodeChange.ALL))

    def clear_node(self, row: int, old: Node) -> None:
        """Forget the node but not its pods: the row becomes a ghost."""
        self.table.set_live(row, False)
        self.set_allocatable(row, {})
        self._forget_object(row, old)
        self.set_images(row, old.status.images, ())
        self._forget_if_many()

    def _forget_object(self, row: int, old: Node) -> None:
        """Take the name, labels and taints from a row. What is held is known from the object, for the row may be wrong."""
        self.set_labels(row, old.metadata.labels, {})
        self.set_taints(row, effective_taints(old), ())
        self._set_value(self.name_column, row, self.name_column.values.ids[old.metadata.name], 0)


def effective_taints(node: Node) -> tuple[Taint, ...]:
    """Return the taints as the table keeps them: a cordoned node has `CORDON` as well, so that one id says all."""
    return (*node.spec.taints, CORDON) if node.spec.unschedulable else node.spec.taints


def _timeless(taint: Taint) -> Taint:
    return taint if taint.time_added is None else Taint(key=taint.key, effect=taint.effect, value=taint.value)


def _nothing_to_recount(_resources: Collection[str]) -> None:
    """Before there is a cache, nothing is counted."""
