"""Allocation of CPUs as nodenumaresource.md §6 and §7 say it, in plain Python: lists of CPU ids, sorted and cut.

With D7 (exactly as many CPUs as asked for), D19 (a full core is all online threads of it, and the largest cores that fit are taken) and D12
(equal shares of the NUMA nodes). Knows nothing of the compiled core but its requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count as numbers
from typing import NamedTuple, TypeVar

from koordsched._core.cpu_accumulator import CpuRequest
from koordsched._core.cpuset import CpuPlace
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, CpuExclusivePolicy

NOT_ENOUGH = "not enough cpus available to satisfy request"
NAMES = {CpuBindPolicy.FULL_PCPUS: "FullPCPUs", CpuBindPolicy.SPREAD_BY_PCPUS: "SpreadByPCPUs"}

Core = tuple[int, int, int]
K = TypeVar("K")


class Shortage(Exception):
    """The request cannot be met, and why."""


class Machine:
    """The CPUs of a machine and who holds them."""

    def __init__(self, places: Iterable[CpuPlace], max_ref_count: int = 1) -> None:
        self.places = {place.id: place for place in places}
        self.max_ref_count = max_ref_count
        self.held: list[tuple[frozenset[int], int]] = []
        self.threads = _grouped(sorted(self.places), self.core)
        sizes = {len(cpus) for cpus in self.threads.values()}
        self.cpus_per_core = max(sizes)
        self.is_uneven = len(sizes) > 1
        self.cpus_per_node = len(self.places) // len({(place.socket, place.node) for place in self.places.values()})
        self.cpus_per_socket = len(self.places) // len({place.socket for place in self.places.values()})

    def core(self, cpu: int) -> Core:
        place = self.places[cpu]
        return (place.socket, place.core, place.node)

    def refs(self, restored: Iterable[Iterable[int]] = ()) -> dict[int, int]:
        """Count the holders of every CPU that has some, each restored set ending one holding of its CPUs."""
        refs = Counter(cpu for cpus, _ in self.held for cpu in cpus)
        for cpus in restored:
            refs.subtract(cpu for cpu in cpus if refs[cpu])
        return {cpu: number for cpu, number in refs.items() if number}

    def free(self, reserved: Iterable[int] = (), restored: Iterable[Iterable[int]] = ()) -> set[int]:
        refs = self.refs(restored)
        return {cpu for cpu in self.places if refs.get(cpu, 0) < self.max_ref_count} - set(reserved)

    def full_cores(self, cpus: Iterable[int]) -> set[int]:
        cpus = set(cpus)
        return {cpu for cpu in cpus if cpus.issuperset(self.threads[self.core(cpu)])}

    def first_of_cores(self, cpus: Iterable[int]) -> set[int]:
        return {min(mine) for mine in _grouped(cpus, self.core).values()}

    def usable(self, cpus: set[int], bind: int) -> set[int]:
        if bind == CpuBindPolicy.FULL_PCPUS:
            return self.full_cores(cpus)
        return self.first_of_cores(cpus) if bind == CpuBindPolicy.SPREAD_BY_PCPUS else cpus


class Where(NamedTuple):
    """What is free, and what must come from where."""

    reserved: frozenset[int] = frozenset()
    preferred: frozenset[int] = frozenset()
    restored: Sequence[frozenset[int]] = ()
    numa_amounts: Mapping[int, int] | None = None


def allocate(machine: Machine, request: CpuRequest, where: Where) -> set[int]:
    """Return free CPUs for a request (§6)."""
    restored = [where.preferred, *where.restored]
    available = machine.free(where.reserved, restored)
    if request.required:
        available = machine.usable(available, request.bind)
    if len(available) < request.count:
        raise Shortage(NOT_ENOUGH)
    refs = machine.refs(restored)

    def take_preferred(cpus: set[int], count: int) -> set[int]:
        first = take(machine, request, refs, cpus & where.preferred, min(count, len(cpus & where.preferred)))
        return first | take(machine, request, refs, cpus - where.preferred, count - len(first))

    found: set[int] = set()
    for node, milli in sorted((where.numa_amounts or {}).items()):
        there = {cpu for cpu in available if machine.places[cpu].node == node}
        found |= take_preferred(there, min(len(there), milli // 1000))
    if where.numa_amounts and len(found) != request.count:
        raise Shortage(NOT_ENOUGH)
    if not where.numa_amounts:
        found = take_preferred(available, request.count)
    if request.required and machine.usable(found, request.bind) != found:
        found = _exact_cores(machine, refs, available, request.count) if machine.is_uneven and not where.numa_amounts else set()
        if not found:
            raise Shortage(f"insufficient CPUs to satisfy required cpu bind policy {NAMES[CpuBindPolicy(request.bind)]}")
    return found


def _exact_cores(machine: Machine, refs: Mapping[int, int], available: set[int], count: int) -> set[int]:
    """Return whole cores with `count` CPUs: the largest, then those with few holders, as long as they fit (D19)."""

    def order(core: Core) -> tuple[int | Core, ...]:
        shared = sum(refs.get(cpu, 0) for cpu in machine.threads[core]) if machine.max_ref_count > 1 else 0
        return (-len(machine.threads[core]), shared, core)

    found: list[int] = []
    for core in sorted(set(map(machine.core, available)), key=order):
        if len(machine.threads[core]) <= count - len(found):
            found += machine.threads[core]
    return set(found) if len(found) == count else set()


def take(machine: Machine, request: CpuRequest, refs: Mapping[int, int], available: set[int], count: int) -> set[int]:
    """Return some of the available CPUs (§7), of which there are enough."""
    if request.strategy != AllocateStrategy.DISTRIBUTE_EVENLY:
        return _Accumulator(machine, request, refs, available, count).take()
    found: set[int] = set()
    for cpus, share in _shares(machine, request, available, count):
        found |= _Accumulator(machine, request, refs, cpus, share).take()
    return found | _Accumulator(machine, request, refs, available - found, count - len(found)).take()


def _shares(machine: Machine, request: CpuRequest, available: set[int], count: int) -> Iterable[tuple[set[int], int]]:
    """Yield the CPUs of each NUMA node with its share: the poorest first, of what is still needed, in whole cores for FullPCPUs (D12)."""
    whole = request.bind == CpuBindPolicy.FULL_PCPUS
    usable = machine.full_cores(available) if whole else available
    unit = machine.cpus_per_core if whole else 1
    nodes = sorted({place.node for place in machine.places.values()})
    rooms = {node: sum(machine.places[cpu].node == node for cpu in usable) for node in nodes}
    nodes.sort(key=lambda node: rooms[node])
    for i, node in enumerate(nodes):
        left = len(nodes) - i
        share = min(rooms[node], count if left == 1 else count // unit // left * unit)
        yield {cpu for cpu in available if machine.places[cpu].node == node}, share
        count -= share


class _Accumulator:
    """Take CPUs one list at a time."""

    def __init__(self, machine: Machine, request: CpuRequest, refs: Mapping[int, int], available: set[int], count: int) -> None:
        self.machine = machine
        self.request = request
        self.refs = refs if machine.max_ref_count > 1 else {}
        self.available = set(available)
        self.needed = count
        self.taken: list[int] = []
        exclusive = [cpu for cpus, policy in machine.held if policy == request.exclusive for cpu in cpus if cpu in refs]
        self.exclusive_cores = {machine.core(cpu) for cpu in exclusive if request.exclusive == CpuExclusivePolicy.PCPU_LEVEL}
        self.exclusive_nodes = {machine.places[cpu].node for cpu in exclusive if request.exclusive == CpuExclusivePolicy.NUMA_NODE_LEVEL}

    def take(self) -> set[int]:
        bind, machine = self.request.bind, self.machine
        if self.needed > 0 and (bind == CpuBindPolicy.FULL_PCPUS or machine.cpus_per_core == 1):
            self._take_cores()
        if self.needed > 0 and bind != CpuBindPolicy.FULL_PCPUS:
            self._take_threads()
        for ex in (True, False):
            for cpu in self._spread(self._all_free(ex)):
                self._get([cpu][: self.needed])
        return set(self.taken)

    def _get(self, cpus: Iterable[int]) -> None:
        for cpu in cpus:
            self.available.remove(cpu)
            self.taken.append(cpu)
            self.needed -= 1
            if self.request.exclusive == CpuExclusivePolicy.PCPU_LEVEL:
                self.exclusive_cores.add(self.machine.core(cpu))
            elif self.request.exclusive == CpuExclusivePolicy.NUMA_NODE_LEVEL:
                self.exclusive_nodes.add(self._node(cpu))

    # Step A

    def _take_cores(self) -> None:
        machine = self.machine
        if self.needed <= machine.cpus_per_node:
            for ex in (True, False):
                for cpus in self._cores_by_node(ex):
                    if len(cpus) >= self.needed:
                        return self._get(self._cut(cpus))
        if self.needed <= machine.cpus_per_socket:
            for cpus in self._cores_by_socket():
                if len(cpus) >= self.needed:
                    return self._get(self._cut(cpus))
        others = []
        for cpus in sorted(self._cores_by_socket(), key=len, reverse=True):
            if len(cpus) <= self.needed:
                self._get(cpus)
            else:
                others.append(cpus)
        for cpus in sorted(others, key=len):
            self._get(self._fitting(cpus))
        return None

    def _fitting(self, cpus: list[int]) -> list[int]:
        """Return the cores of a list of full cores that fit, in its order."""
        found: list[int] = []
        for mine in _grouped(cpus, self.machine.core).values():
            if len(mine) <= self.needed - len(found):
                found += mine
        return found

    def _cut(self, cpus: list[int]) -> list[int]:
        """Return as many CPUs as are needed of a list of full cores: those that fit, and of the first that does not what it takes."""
        fitting = self._fitting(cpus)
        return fitting + [cpu for cpu in cpus if cpu not in fitting][: self.needed - len(fitting)]

    def _cores_by_node(self, ex: bool) -> list[list[int]]:
        free = {cpu for cpu in self.available if not (ex and self._node(cpu) in self.exclusive_nodes)}
        groups = self._full_cores_of(free, self._node)
        room = Counter(map(self._socket, free))
        order = sorted(groups, key=lambda node: (self._sign(len(groups[node])), self._sign(room[self._socket(groups[node][0])]), node))
        return [groups[node] for node in order]

    def _cores_by_socket(self) -> list[list[int]]:
        groups = self._full_cores_of(self.available, self._socket)
        return [groups[socket] for socket in sorted(groups, key=lambda socket: (self._sign(len(groups[socket])), socket))]

    def _full_cores_of(self, free: set[int], group: Callable[[int], int]) -> dict[int, list[int]]:
        cores = _grouped(sorted(self.machine.full_cores(free)), self.machine.core)
        order = sorted(cores, key=lambda core: (-len(cores[core]), self._refs(cores[core]), core))
        return _grouped([cpu for core in order for cpu in cores[core]], group)

    # Step B

    def _take_threads(self) -> None:
        machine = self.machine
        for limit, groups in ((machine.cpus_per_node, self._cpus_by_node), (machine.cpus_per_socket, self._cpus_by_socket)):
            if self.needed <= limit:
                for ex in (True, False):
                    for cpus in groups(ex):
                        if len(cpus) >= self.needed:
                            return self._get(self._spread(cpus)[: self.needed])
        return None

    def _cpus_by_node(self, ex: bool) -> list[list[int]]:
        free = [cpu for cpu in self.available if not (ex and self._is_exclusive(cpu))]
        groups = _grouped(sorted(free, key=self._thread_order), self._node)
        room = Counter(map(self._socket, free))
        order = sorted(groups, key=lambda node: (self._sign(len(groups[node])), self._sign(room[self._socket(groups[node][0])]), node))
        return [self._one_of_core(groups[node]) if ex else groups[node] for node in order]

    def _cpus_by_socket(self, ex: bool) -> list[list[int]]:
        free = [cpu for cpu in self.available if not (ex and self.machine.core(cpu) in self.exclusive_cores)]
        groups = _grouped(sorted(free, key=self._thread_order), self._socket)
        if ex:
            groups = {socket: self._one_of_core(cpus) for socket, cpus in groups.items()}
        return [groups[socket] for socket in sorted(groups, key=lambda socket: (self._sign(len(groups[socket])), socket))]

    def _one_of_core(self, cpus: list[int]) -> list[int]:
        return [mine[0] for mine in _grouped(cpus, self.machine.core).values()]

    def _spread(self, cpus: list[int]) -> list[int]:
        if len(cpus) <= self.machine.cpus_per_core:
            return cpus
        turns = {core: numbers() for core in map(self.machine.core, cpus)}
        return [cpu for _, cpu in sorted([(next(turns[self.machine.core(cpu)]), cpu) for cpu in cpus], key=lambda turn: turn[0])]

    # Step C

    def _all_free(self, ex: bool) -> list[int]:
        free = [cpu for cpu in self.available if not (ex and self._is_exclusive(cpu))]
        cores = _grouped(sorted(free, key=self._thread_order), self.machine.core)
        taken = Counter(map(self._socket, self.taken))
        in_socket, in_node = Counter(map(self._socket, free)), Counter(map(self._node, free))

        def order(core: Core) -> tuple[int | Core, ...]:
            socket, _, node = core
            rooms = (self._sign(in_socket[socket]), self._sign(in_node[node]))
            return (-taken[socket], *rooms, len(cores[core]), socket, self._refs(cores[core]), core)

        return [cpu for core in sorted(cores, key=order) for cpu in cores[core]]

    # Places and orders

    def _is_exclusive(self, cpu: int) -> bool:
        return self.machine.core(cpu) in self.exclusive_cores or self._node(cpu) in self.exclusive_nodes

    def _node(self, cpu: int) -> int:
        return self.machine.places[cpu].node

    def _socket(self, cpu: int) -> int:
        return self.machine.places[cpu].socket

    def _sign(self, number: int) -> int:
        return number if self.request.strategy == AllocateStrategy.MOST else -number

    def _refs(self, cpus: list[int]) -> int:
        return sum(self.refs.get(cpu, 0) for cpu in cpus)

    def _thread_order(self, cpu: int) -> tuple[int, int]:
        return (self.refs.get(cpu, 0), cpu)


def _grouped(cpus: Iterable[int], key: Callable[[int], K]) -> dict[K, list[int]]:
    groups: dict[K, list[int]] = {}
    for cpu in cpus:
        groups.setdefault(key(cpu), []).append(cpu)
    return groups
