"""Which devices of one node a pod gets, written down as deviceshare.md §6 and §7 say it, and what a legal allocation is.

Slow and plain: sets and dicts, everything worked out anew at each question. Of the kernel only the plain values that it is given are used
(`device_facts`). `DeviceModel.allocate` says what must be chosen, `is_legal` and `some_legal` what could be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from koordsched._core.device_facts import (
    Allocated,
    DeviceFacts,
    DevicePartition,
    DeviceReason,
    DeviceResource,
    DeviceType,
    HeldDevice,
    NodeAccelerators,
    NodeDevices,
    PartitionDemand,
    TypeDemand,
)

GPU, RDMA, FPGA = DeviceType.GPU, DeviceType.RDMA, DeviceType.FPGA
CORE, MEMORY, RATIO = DeviceResource.GPU_CORE, DeviceResource.GPU_MEMORY, DeviceResource.GPU_MEMORY_RATIO
SIZES = {8: 10000, 4: 100, 2: 1}
PAIRS: list[tuple[int, ...]] = [(0, 1), (2, 3), (4, 5), (6, 7)]
QUADS: list[tuple[int, ...]] = [(0, 1, 2, 3), (4, 5, 6, 7)]
GROUPS: dict[int, list[tuple[int, ...]]] = {1: [(minor,) for minor in range(8)], 2: PAIRS, 4: QUADS, 8: [tuple(range(8))]}
BUILT_IN = {size: [DevicePartition(minors, 1) for minors in groups] for size, groups in GROUPS.items()}
LINKED_MODELS = ("H100", "H800", "H20")

Amounts = Mapping[DeviceResource, int]


class Demand(NamedTuple):
    """What a pod asks for: the arguments of a `DeviceRequest`, as values."""

    types: Mapping[DeviceType, TypeDemand]
    shared: bool = False
    joint: Sequence[DeviceType] = ()
    same_pcie: bool = False
    partition: PartitionDemand | None = None
    scope: int | None = None
    templates: Mapping[str, Sequence[str]] | None = None
    isolation_provider: str = ""
    unshareable: Sequence[tuple[str, str]] = ()


class Weights(NamedTuple):
    """A scoring strategy."""

    weights: Mapping[DeviceResource, int]
    most: bool = False


class Refused(Exception):  # a decision, no error
    """The node has no devices for the pod. detail: a device type, where the reason is about one."""

    def __init__(self, reason: DeviceReason, detail: DeviceType | None = None) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Adjusted(NamedTuple):
    """What reservations and victims change: see `DeviceAdjustment`."""

    reusable: Mapping[DeviceType, Mapping[int, Amounts]] = {}
    required: Mapping[DeviceType, Mapping[int, Amounts]] = {}
    preferred: Mapping[DeviceType, Sequence[int]] = {}
    freed_vfs: Mapping[DeviceType, Mapping[int, Sequence[str]]] = {}


class Scope(NamedTuple):
    """A part of the machine and the GPUs in it, healthy or not."""

    level: int
    minors: frozenset[int]
    children: tuple[Scope, ...] = ()


class DeviceModel(NamedTuple):
    """A node: its Device, if there is one, its labels, and what pods hold there."""

    described: NodeDevices | None
    accelerators: NodeAccelerators
    held: Sequence[Sequence[HeldDevice]] = ()

    # What there is

    def listed(self, kind: DeviceType) -> dict[int, DeviceFacts]:
        """Return the devices by minor. Of several with one minor the last counts."""
        return {} if self.described is None else {device.minor: device for device in self.described.devices.get(kind, ())}

    def used(self, kind: DeviceType) -> dict[int, dict[DeviceResource, int]]:
        found: dict[int, dict[DeviceResource, int]] = {}
        for of_pod in self.held:
            for each in of_pod:
                if each.type is kind:
                    sums = found.setdefault(each.minor, {})
                    for name, amount in each.amounts.items():
                        sums[name] = sums.get(name, 0) + amount
        return found

    def totals(self, kind: DeviceType) -> dict[int, dict[DeviceResource, int]]:
        """Return what every known device offers: nothing when it is unhealthy, or only known from pods that hold something of it."""
        found: dict[int, dict[DeviceResource, int]] = {minor: {} for minor in self.used(kind)}
        for minor, device in self.listed(kind).items():
            found[minor] = {name: max(0, amount) for name, amount in device.totals.items()} if device.healthy else {}
        return dict(sorted(found.items()))

    def free(self, kind: DeviceType, adjusted: Adjusted) -> dict[int, dict[DeviceResource, int]]:
        """Return what is left, by the names of the total and of what is held (§6 "Free")."""
        found = {}
        used, required = self.used(kind), adjusted.required.get(kind)
        for minor, total in self.totals(kind).items():
            reusable = adjusted.reusable.get(kind, {}).get(minor, {})
            held = used.get(minor, {})
            left = {
                name: max(0, total.get(name, 0) - max(0, held.get(name, 0) - reusable.get(name, 0))) for name in sorted({*total, *held})
            }
            if required is not None:
                if minor not in required:
                    continue
                limits = required[minor]
                left = {name: min(amount, limits.get(name, amount)) for name, amount in left.items()} if limits else {}
            found[minor] = left
        return found

    def used_vfs(self, kind: DeviceType, minor: int) -> set[str]:
        return {bus for of_pod in self.held for each in of_pod if (each.type, each.minor) == (kind, minor) for bus in each.vfs}

    def free_vfs(self, kind: DeviceType, minor: int, demand: TypeDemand, adjusted: Adjusted) -> list[tuple[str, int]]:
        """Return (bus id, minor) of the virtual functions that suit, those with the smallest bus ids first."""
        device = self.listed(kind).get(minor)
        taken = self.used_vfs(kind, minor) - set(adjusted.freed_vfs.get(kind, {}).get(minor, ()))
        if device is None or demand.vf_selector is None:
            return []
        suiting = [vf for group in device.vf_groups if demand.vf_selector(group.labels) for vf in group.vfs]
        return sorted((vf for vf in suiting if vf[0] not in taken), key=lambda vf: vf[0])

    @property
    def tree(self) -> Scope | None:
        """Return the scopes of the machine: None when it is not known of some GPU where it is."""
        devices = self.listed(GPU).values()
        if not devices or any(device.numa is None for device in devices):
            return None
        numas = []
        for numa in sorted({device.numa for device in devices if device.numa is not None}):
            here = [device for device in devices if device.numa == numa]
            switches = [
                Scope(3, frozenset(device.minor for device in here if device.pcie == pcie))
                for pcie in sorted({device.pcie for device in here})
            ]
            numas.append(Scope(2, frozenset(device.minor for device in here), tuple(switches)))
        return Scope(1, frozenset(device.minor for device in devices), tuple(numas))

    @property
    def partitions(self) -> Mapping[int, Sequence[DevicePartition]] | None:
        if self.described is not None and self.described.partitions is not None:
            return self.described.partitions
        known = self.accelerators.vendor in {"", "nvidia"} and self.accelerators.model in LINKED_MODELS
        return BUILT_IN if known else None

    @property
    def honors(self) -> bool:
        if self.described is not None and self.described.partitions is not None:
            return self.described.honor
        return self.accelerators.honor

    # Choosing (§6)

    def allocate(
        self,
        demand: Demand,
        scoring: Weights | None = None,
        *,
        adjusted: Adjusted = Adjusted(),  # noqa: B008  # a value
        mask: int = 0,
        reserve: bool = False,
    ) -> tuple[Allocated, ...]:
        """Return what a pod gets; () where devices are not the scheduler's. Refused."""
        if demand.shared:
            if demand.isolation_provider and demand.isolation_provider != self.accelerators.isolation_provider:
                raise Refused(DeviceReason.NO_ISOLATION_PROVIDER)
            if (self.accelerators.vendor, self.accelerators.model) in demand.unshareable:
                raise Refused(DeviceReason.SHARE_UNSUPPORTED)
        if self.described is None and not any(self.held):
            return ()
        return Choice(self, demand, scoring, adjusted, mask, reserve).all_types()

    def score(self, demand: Demand, scoring: Weights, *, adjusted: Adjusted = Adjusted(), mask: int = 0) -> int:  # noqa: B008
        """Return the score of the node (§7)."""
        if self.described is None and not any(self.held):
            return 0
        choice, found = Choice(self, demand, scoring, adjusted, mask, reserve=False), 0
        try:
            desired = choice.desired()
        except Refused:
            return 0
        for kind in desired:
            candidates = choice.candidates(kind)
            totals, free = self.totals(kind), self.free(kind, adjusted)
            found += use_score(
                scoring, summed(totals[m] for m in candidates), summed(free[m] for m in candidates), demand.types[kind].amounts
            )
        return found


class Choice(NamedTuple):
    """One pod on one node."""

    node: DeviceModel
    demand: Demand
    scoring: Weights | None
    adjusted: Adjusted
    mask: int
    reserve: bool

    def all_types(self) -> tuple[Allocated, ...]:
        desired = self.desired()
        taken: dict[DeviceType, tuple[Allocated, ...]] = {}
        joint = [kind for kind in self.demand.joint if kind in desired]
        if len(desired) > 1 and self.demand.joint:
            taken = self.jointly(joint, desired)
        for kind in sorted(desired):
            if kind not in taken:
                taken[kind] = self.of_type(kind, desired[kind], ())
        return tuple(each for kind in sorted(taken) for each in taken[kind])

    def desired(self) -> dict[DeviceType, int]:
        """Return how many devices of each type, of those that are looked at now."""
        found = {}
        for kind, asked in sorted(self.demand.types.items()):
            if self.is_skipped(kind):
                continue
            listed = self.node.listed(kind)
            known = self.node.totals(kind)
            count = asked.count
            if asked.apply_for_all:
                count = len(known) if asked.selector is None else sum(asked.selector(device.labels) for device in listed.values())
            if not known or (asked.apply_for_all and not count):
                raise Refused(DeviceReason.NO_DEVICES, kind)
            found[kind] = count
        for kind in found:
            if self.demand.types[kind].vf_selector is not None:
                groups = [group for device in self.node.listed(kind).values() for group in device.vf_groups]
                if not groups:
                    raise Refused(DeviceReason.NO_VFS, kind)
        return found

    def is_skipped(self, kind: DeviceType) -> bool:
        planned = self.node.described is not None and self.node.described.well_planned
        whole = GPU in self.demand.types and not self.demand.shared
        return bool(self.demand.joint) and kind != self.demand.joint[0] and planned and whole and not self.reserve

    def candidates(self, kind: DeviceType) -> list[int]:
        """Return the listed minors that come into question at all, ascending; what is only held counts as in use, not as a candidate."""
        free, listed = self.node.free(kind, self.adjusted), self.node.listed(kind)
        if not any(any(left.values()) for left in free.values()):
            return []
        selector = self.demand.types[kind].selector
        found = []
        for minor in free:
            device = listed.get(minor)
            if device is None:
                continue
            if self.mask and (device.numa is None or (device.numa >= 0 and not self.mask >> device.numa & 1)):
                continue
            if selector is not None and not selector(device.labels):
                continue
            found.append(minor)
        return found

    def fits(self, kind: DeviceType, minor: int) -> bool:
        """Answer whether a device has something left, and what is asked of each of what it has a say in."""
        free = self.node.free(kind, self.adjusted)[minor]
        return any(free.values()) and all(free.get(name, 0) >= amount for name, amount in self.demand.types[kind].amounts.items())

    def device_score(self, kind: DeviceType, minor: int) -> int:
        if self.scoring is None:
            return 0
        total, free = self.node.totals(kind)[minor], self.node.free(kind, self.adjusted)[minor]
        return use_score(self.scoring, total, free, self.demand.types[kind].amounts)

    def of_type(self, kind: DeviceType, desired: int, pcies: Iterable[str]) -> tuple[Allocated, ...]:
        if kind is GPU:
            return self.gpus(desired)
        return self.any_devices(kind, desired, pcies)

    def entry(self, kind: DeviceType, minor: int, vf: tuple[str, int] | None = None, template: str = "") -> Allocated:
        amounts = dict(self.demand.types[kind].amounts)
        if kind is GPU and self.reserve:
            memory = self.node.totals(GPU)[minor].get(MEMORY, 0)
            if RATIO in amounts and MEMORY not in amounts:
                amounts[MEMORY] = amounts[RATIO] * memory // 100
            elif MEMORY in amounts and RATIO not in amounts:
                amounts[RATIO] = int(amounts[MEMORY] / memory * 100) if memory else 0
        return Allocated(kind, minor, amounts, vf, template)

    def any_devices(self, kind: DeviceType, desired: int, pcies: Iterable[str], template: str = "") -> tuple[Allocated, ...]:
        """§6.1."""
        asked, listed, wanted = self.demand.types[kind], self.node.listed(kind), set(pcies)
        preferred = set(self.adjusted.preferred.get(kind, ()))
        order = sorted(self.candidates(kind), key=lambda minor: (minor not in preferred, -self.device_score(kind, minor), minor))
        if wanted and not preferred:
            rounds: dict[str, int] = {}
            ranks = {}
            for minor in order:
                device = listed.get(minor)
                pcie = device.pcie if device is not None and device.numa is not None else None
                if pcie is not None and pcie in wanted:
                    ranks[minor] = rounds[pcie] = rounds.get(pcie, 0) + 1
            order = sorted(order, key=lambda minor: ranks.get(minor, len(ranks) + 1))  # list.sort would show its key an empty list
        found: list[Allocated] = []
        for minor in order:
            if len(found) == max(desired, len(wanted), 1):
                break
            if not self.fits(kind, minor):
                continue
            vf = None
            if asked.vf_selector is not None:
                vfs = self.node.free_vfs(kind, minor, asked, self.adjusted)
                if not vfs:
                    continue
                vf = vfs[0]
            found.append(self.entry(kind, minor, vf, template))
        if len(found) < max(desired, 1):
            raise Refused(DeviceReason.INSUFFICIENT, kind)
        return tuple(found)

    def jointly(self, joint: Sequence[DeviceType], desired: Mapping[DeviceType, int]) -> dict[DeviceType, tuple[Allocated, ...]]:
        """§6.2, the choice of the primary devices not revisited."""
        primary = self.demand.joint[0]
        taken = {primary: self.of_type(primary, desired[primary], ())}
        pcies = self.pcies(taken[primary])
        for kind in joint[1:]:
            count = max(desired[kind], len(pcies)) if self.demand.same_pcie else desired[kind]
            taken[kind] = self.of_type(kind, count, pcies)
        if self.demand.same_pcie and any(self.pcies(entries) != pcies for entries in taken.values()):
            raise Refused(DeviceReason.JOINT_VIOLATION)
        return taken

    def pcies(self, entries: Iterable[Allocated]) -> set[str]:
        found = set()
        for each in entries:
            device = self.node.listed(each.type).get(each.minor)
            if device is not None and device.numa is not None:
                found.add(device.pcie)
        return found

    # GPUs (§6.3)

    def in_use(self) -> set[int]:
        """Return U."""
        candidates = set(self.candidates(GPU))
        totals, free = self.node.totals(GPU), self.node.free(GPU, self.adjusted)
        others = {minor for minor, used in self.node.used(GPU).items() if minor not in candidates and any(used.values())}
        return others | {minor for minor in candidates if any(free[minor].get(name, 0) < amount for name, amount in totals[minor].items())}

    def healthy(self) -> set[int]:
        """Return T."""
        return {minor for minor in self.candidates(GPU) if any(self.node.totals(GPU)[minor].values())}

    def gpus(self, desired: int) -> tuple[Allocated, ...]:
        demand, template = self.demand, ""
        if demand.templates is not None:
            names = demand.templates.get(f"{self.node.accelerators.vendor}-{self.node.accelerators.model}", ())
            if not names:
                raise Refused(DeviceReason.NO_TEMPLATE)
            template = names[0] if len(names) == 1 else ""
        if not demand.shared:
            try:
                return tuple(self.entry(GPU, minor) for minor in sorted(self.by_partition().minors))
            except Refused:
                if demand.partition is not None or self.node.honors:
                    raise
        try:
            return tuple(self.entry(GPU, minor, template=template) for minor in self.by_topology())
        except Refused as refusal:
            if demand.scope is not None or refusal.reason not in {DeviceReason.NO_TOPOLOGY, DeviceReason.MULTI_SHARED}:
                raise
        return self.any_devices(GPU, desired, (), template)

    def by_partition(self) -> DevicePartition:
        index, count = self.node.partitions, self.demand.types[GPU].count
        if index is None:
            raise Refused(DeviceReason.NO_PARTITION_TABLE)
        if not index.get(count):
            raise Refused(DeviceReason.UNSUPPORTED_COUNT)
        for group in groups_of(index[count])[: 1 if self.is_restricted else None]:
            feasible = [partition for partition in group if self.is_feasible(partition)]
            if feasible:
                return max(feasible, key=self.left_whole)
        raise Refused(DeviceReason.INSUFFICIENT_PARTITIONED)

    @property
    def is_restricted(self) -> bool:
        return self.demand.partition is not None and self.demand.partition.restricted

    def is_feasible(self, partition: DevicePartition) -> bool:
        asked = None if self.demand.partition is None else self.demand.partition.bandwidth
        enough = asked is None or (partition.bandwidth is not None and partition.bandwidth >= asked)
        minors = set(partition.minors)
        enough = enough and len(minors) == self.demand.types[GPU].count
        return enough and not minors & self.in_use() and minors <= self.healthy()

    def left_whole(self, candidate: DevicePartition) -> int:
        busy, found = self.in_use() | set(candidate.minors), 0
        for size, weight in SIZES.items():
            table = (self.node.partitions or {}).get(size)
            if table and size >= self.demand.types[GPU].count:
                found += sum(weight * each.score for each in groups_of(table)[0] if not set(each.minors) & busy)
        return found

    def by_topology(self) -> list[int]:
        tree = self.node.tree
        if tree is None:
            raise Refused(DeviceReason.NO_TOPOLOGY)
        if self.demand.shared and self.demand.types[GPU].count > 1:
            raise Refused(DeviceReason.MULTI_SHARED)
        answer = self.answer(tree, 0)
        if answer is None:
            raise Refused(DeviceReason.INSUFFICIENT_GPUS if self.demand.scope is None else DeviceReason.INSUFFICIENT_SCOPED)
        return answer.minors

    def answer(self, scope: Scope, in_use_above: int) -> Answer | None:
        """Return what a scope, or the best one within it, would give."""
        count = self.demand.types[GPU].count
        if len(scope.minors) < count:
            return None
        in_use = in_use_above + bool(scope.minors & self.in_use())
        answers = [found for child in scope.children if (found := self.answer(child, in_use)) is not None]
        if answers:
            return max(answers, key=lambda found: (found.depth, found.in_use, found.score if self.demand.shared else 0))
        if scope.level < (self.demand.scope or 0):
            return None
        fitting = [minor for minor in sorted(scope.minors & self.healthy()) if self.fits(GPU, minor)]
        if len(fitting) < count:
            return None
        if not self.demand.shared:
            return Answer(scope.level, in_use, 0, fitting[:count])
        best = max(fitting, key=lambda minor: self.device_score(GPU, minor))
        return Answer(scope.level, in_use, self.device_score(GPU, best), [best])


class Answer(NamedTuple):
    """What a scope gives. in_use: how many scopes on the way to it have a GPU in use."""

    depth: int
    in_use: int
    score: int
    minors: list[int]


def groups_of(partitions: Sequence[DevicePartition]) -> list[list[DevicePartition]]:
    """Group partitions of one size by score, the lowest first."""
    return [[each for each in partitions if each.score == score] for score in sorted({each.score for each in partitions})]


def summed(amounts: Iterable[Amounts]) -> dict[DeviceResource, int]:
    found: dict[DeviceResource, int] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0) + amount
    return found


def use_score(scoring: Weights, totals: Amounts, free: Amounts, asked: Amounts) -> int:
    """Return the score of so much free of a total, 0 to 100 (§7)."""
    found = weights = 0
    for name, weight in scoring.weights.items():
        total, left = totals.get(name, 0), free.get(name, 0)
        if not total or not weight:
            continue
        requested = total if left > total else total - left + asked.get(name, 0)
        weights += weight
        if scoring.most:
            found += weight * (min(requested, total) * 100 // total)
        elif requested <= total:
            found += weight * ((total - requested) * 100 // total)
    return found // weights if weights else 0


# What is legal


def broken_rules(node: DeviceModel, demand: Demand, given: Sequence[Allocated], *, mask: int = 0, reserve: bool = True) -> Iterator[str]:
    """Yield what an allocation must not do: everything that a pod or a node requires, and that no device gives more than it has."""
    choice = Choice(node, demand, None, Adjusted(), mask, reserve)
    desired = choice.desired()
    for kind, count in desired.items():
        entries = [each for each in given if each.type is kind]
        minors = [each.minor for each in entries]
        extra = kind in demand.joint[1:] and kind is not GPU
        if len(minors) < max(count, 1) or (len(minors) > max(count, 1) and not extra):
            yield f"{len(minors)} of {kind.name}, not {count}"
        if len(set(minors)) != len(minors):
            yield f"{kind.name} twice: {minors}"
        for each in entries:
            if each.minor not in choice.candidates(kind) or not choice.fits(kind, each.minor):
                yield f"{kind.name} {each.minor} does not have it"
        with_vfs = demand.types[kind].vf_selector is not None and (kind is not GPU or node.tree is None)
        for each in entries:
            suiting = node.free_vfs(kind, each.minor, demand.types[kind], Adjusted())
            if with_vfs and each.vf not in suiting:
                yield f"virtual function {each.vf} of {kind.name} {each.minor}"
    if {each.type for each in given} != set(desired):
        yield "other types"
    gpus = {each.minor for each in given if each.type is GPU}
    if gpus and not demand.shared and (demand.partition is not None or node.honors):
        yield from _broken_partitions(choice, gpus)
    if gpus and not (gpus <= choice.healthy()):
        yield "a GPU that is not healthy"
    yield from _broken_scopes(choice, gpus, given)


def _broken_partitions(choice: Choice, gpus: set[int]) -> Iterator[str]:
    count = choice.demand.types[GPU].count
    table = (choice.node.partitions or {}).get(count) or []
    groups = groups_of(table)[: 1 if choice.is_restricted else None]
    if len(gpus) != count or not any(set(each.minors) == gpus and choice.is_feasible(each) for group in groups for each in group):
        yield f"{sorted(gpus)} is no free partition"


def _broken_scopes(choice: Choice, gpus: set[int], given: Sequence[Allocated]) -> Iterator[str]:
    demand = choice.demand
    by_partition = bool(gpus) and not demand.shared and not list(_broken_partitions(choice, gpus))
    if gpus and demand.scope is not None and not by_partition:
        tree = choice.node.tree
        multiple = demand.shared and demand.types[GPU].count > 1
        if tree is None or multiple or not any(gpus <= scope.minors for scope in all_scopes(tree) if scope.level >= demand.scope):
            yield f"{sorted(gpus)} in no scope of level {demand.scope}"
    joint = [kind for kind in demand.joint if any(each.type is kind for each in given)]
    if demand.same_pcie and len({each.type for each in given}) > 1:
        sets = [choice.pcies(each for each in given if each.type is kind) for kind in joint]
        if any(each != sets[0] for each in sets):
            yield f"not on the same PCIe: {sets}"


def all_scopes(scope: Scope) -> Iterator[Scope]:
    yield scope
    for child in scope.children:
        yield from all_scopes(child)


def some_legal(node: DeviceModel, demand: Demand, *, mask: int = 0, reserve: bool = True) -> tuple[Allocated, ...] | None:
    """Try every choice of devices; return the first legal one. Exponential in the number of devices."""
    choice = Choice(node, demand, None, Adjusted(), mask, reserve)
    try:
        desired = choice.desired()
    except Refused:
        return None
    options = []
    for kind, count in desired.items():
        most = max(count, 1)
        if kind in demand.joint[1:] and kind is not GPU:
            most = max(most, len(node.listed(demand.joint[0])))
        usable = [minor for minor in choice.candidates(kind) if choice.fits(kind, minor)]
        options.append(
            [_entries(node, demand, kind, minors) for size in range(max(count, 1), most + 1) for minors in combinations(usable, size)]
        )
    for chosen in product(*options):
        given = tuple(each for of_type in chosen for each in of_type)
        if not list(broken_rules(node, demand, given, mask=mask, reserve=reserve)):
            return given
    return None


def _entries(node: DeviceModel, demand: Demand, kind: DeviceType, minors: Sequence[int]) -> list[Allocated]:
    asked = demand.types[kind]
    found = []
    for minor in minors:
        vfs = node.free_vfs(kind, minor, asked, Adjusted())
        found.append(Allocated(kind, minor, dict(asked.amounts), vfs[0] if vfs else None))
    return found
