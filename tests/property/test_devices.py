"""The kernel of DeviceShare against the plain model of deviceshare.md §6 and §7, on small random nodes and through sequences of pods.

What is allocated is what the model allocates, or, where the model does not look further (§6.2 [OPT]), something that breaks no rule; what
is refused is refused for the model's reason, and an exhaustive search finds nothing legal either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.models.devices import Adjusted, Demand, DeviceModel, Refused, Weights, broken_rules, some_legal

from koordsched._core.device_allocation import allocate, score_node
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
    VfGroup,
    detail_of,
    reason_of,
)
from koordsched._core.device_filter import filter_devices, score_devices
from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched._core.device_reserved import LeftDevices
from koordsched._core.device_score import DeviceScoring
from koordsched._core.device_table import DeviceTable
from koordsched._core.device_view import HiddenDevices
from koordsched._core.table import NodeTable

GPU, RDMA, FPGA = DeviceType.GPU, DeviceType.RDMA, DeviceType.FPGA
CORE, MEMORY, RATIO = DeviceResource.GPU_CORE, DeviceResource.GPU_MEMORY, DeviceResource.GPU_MEMORY_RATIO
NPU_CORE = DeviceResource.NPU_CORE
OWN = {RDMA: DeviceResource.RDMA, FPGA: DeviceResource.FPGA}
ABOUT_A_TYPE = {DeviceReason.NO_DEVICES, DeviceReason.INSUFFICIENT, DeviceReason.NO_VFS}
MODELS = ("", "H20", "A10")
INDEX, OTHER_INDEX = 1, 2

# Nodes


def has_label(text: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda labels: labels.get("tier") == text


LABELS: tuple[dict[str, str], ...] = ({}, {"tier": "a"}, {"tier": "b"})
SELECTORS = (None, has_label("a"), has_label("b"))


@st.composite
def device(draw: st.DrawFn, kind: DeviceType, minor: int, *, placed: bool) -> DeviceFacts:
    of_gpu = {CORE: 100, MEMORY: draw(st.sampled_from([1000, 1000, 999])), RATIO: 100, NPU_CORE: 8}
    totals = of_gpu if kind is GPU else {OWN[kind]: 100}
    numa = draw(st.integers(0, 1)) if placed else None
    pcie = f"p{draw(st.integers(0, 1)) + 2 * (numa or 0)}" if placed else ""
    vfs: tuple[VfGroup, ...] = ()
    if kind is RDMA and draw(st.booleans()):
        buses = [f"0000:{minor}:00.{number}" for number in draw(st.permutations(range(draw(st.integers(1, 3)))))]
        vfs = (VfGroup(draw(st.sampled_from(LABELS)), [(bus, -1) for bus in buses]),)
    healthy = draw(st.integers(0, 7)) > 0
    return DeviceFacts(minor, healthy, totals, numa, pcie, draw(st.sampled_from(LABELS)) if draw(st.booleans()) else LABELS[0], vfs)


@st.composite
def partitions(draw: st.DrawFn, minors: Sequence[int]) -> dict[int, list[DevicePartition]]:
    found: dict[int, list[DevicePartition]] = {}
    for _ in range(draw(st.integers(0, 5))):
        size = draw(st.sampled_from([1, 2, 2, 4]))
        group = draw(st.lists(st.sampled_from([*minors, 40, 41, 42, 43]), min_size=size, max_size=size, unique=True))
        found.setdefault(size, []).append(DevicePartition(group, draw(st.integers(0, 2)), draw(st.sampled_from([None, 100, 200]))))
    return found


@st.composite
def nodes(draw: st.DrawFn) -> DeviceModel:
    accelerators = NodeAccelerators(
        draw(st.sampled_from(["", "nvidia", "other"])),
        draw(st.sampled_from(MODELS)),
        draw(st.sampled_from(["", "x"])),
        draw(st.integers(0, 4)) == 0,
    )
    if draw(st.integers(0, 19)) == 0:
        return DeviceModel(None, accelerators)
    devices: dict[DeviceType, list[DeviceFacts]] = {}
    for kind, most in ((GPU, 5), (RDMA, 3), (FPGA, 2)):
        count, placed = draw(st.integers(0, most)), draw(st.integers(0, 3)) > 0
        listed = [draw(device(kind, minor, placed=placed)) for minor in range(count)]
        if listed and draw(st.integers(0, 9)) == 0:
            listed.append(draw(device(kind, 0, placed=placed)))  # the minor twice
        devices[kind] = listed
    minors = [each.minor for each in devices[GPU]]
    table = draw(st.none() | partitions(minors)) if minors else None
    described = NodeDevices(devices, table, honor=draw(st.integers(0, 2)) == 0, well_planned=draw(st.integers(0, 4)) == 0)
    return DeviceModel(described, accelerators)


# Requests

SHARES: list[tuple[dict[DeviceResource, int], int]] = [
    ({CORE: 50, RATIO: 50}, 1),
    ({CORE: 30, RATIO: 30}, 1),
    ({RATIO: 70}, 1),
    ({MEMORY: 300}, 1),
    ({CORE: 10, MEMORY: 1000}, 1),
    ({RATIO: 40}, 2),
    ({NPU_CORE: 4, MEMORY: 250}, 1),
]


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    types: dict[DeviceType, TypeDemand] = {}
    shared = False
    asked = draw(st.sampled_from([(GPU,), (GPU,), (GPU,), (RDMA,), (GPU, RDMA), (GPU, RDMA), (GPU, FPGA), (GPU, RDMA, FPGA), (RDMA, FPGA)]))
    fields: dict[str, Any] = {}
    if GPU in asked:
        shared = draw(st.booleans())
        amounts, count = draw(st.sampled_from(SHARES)) if shared else ({CORE: 100, RATIO: 100}, draw(st.integers(1, 4)))
        types[GPU] = TypeDemand(amounts, count, selector=draw(st.sampled_from((*[None] * 6, *SELECTORS))))
        fields["scope"] = draw(st.sampled_from([None, None, None, 0, 1, 2, 3, 4]))
        if draw(st.integers(0, 3)) == 0:
            fields["partition"] = PartitionDemand(draw(st.booleans()), draw(st.sampled_from([None, 150])))
        if shared:
            fields["isolation_provider"] = draw(st.sampled_from(["", "", "", "x"]))
            fields["unshareable"] = draw(st.sampled_from([(), [("nvidia", "A10")]]))
            if NPU_CORE in amounts:
                fields["templates"] = draw(st.sampled_from([None, {"other-A10": ("t1",)}, {"other-A10": ("t1", "t2")}]))
    for kind in (RDMA, FPGA):
        if kind in asked:
            amounts, count = draw(
                st.sampled_from([({OWN[kind]: 100}, 1), ({OWN[kind]: 100}, 2), ({OWN[kind]: 40}, 1), ({OWN[kind]: 1}, 3)])
            )
            vf_selector = draw(st.sampled_from([None, None, lambda _labels: True, has_label("a")])) if kind is RDMA else None
            types[kind] = TypeDemand(
                amounts, count, draw(st.integers(0, 5)) == 0, draw(st.sampled_from((*[None] * 4, *SELECTORS))), vf_selector
            )
    if len(asked) > 1 and draw(st.booleans()):
        joint = draw(st.permutations(asked))
        fields["joint"] = tuple(kind for kind in joint if not types[kind].apply_for_all)
        fields["same_pcie"] = draw(st.booleans())
    return Demand(types, shared, **fields)


scorings = st.sampled_from(
    [
        Weights({RATIO: 1, MEMORY: 1, DeviceResource.RDMA: 1, DeviceResource.FPGA: 1}),
        Weights({RATIO: 1, MEMORY: 1, DeviceResource.RDMA: 1, DeviceResource.FPGA: 1}, most=True),
        Weights({RATIO: 3, CORE: 2}, most=True),
    ]
)
masks = st.sampled_from([0, 0, 1, 2, 3])
ONE_VF = Demand({RDMA: TypeDemand({OWN[RDMA]: 1}, 1, vf_selector=lambda _labels: True)})

# What pods hold that no scheduler of ours gave them

held_entries = st.lists(
    st.one_of(
        st.builds(
            HeldDevice,
            st.just(GPU),
            st.integers(0, 8),
            st.fixed_dictionaries({CORE: st.integers(0, 120), RATIO: st.integers(0, 120), MEMORY: st.integers(0, 1200)}),
        ),
        st.builds(
            lambda minor, amount, vfs: HeldDevice(RDMA, minor, {OWN[RDMA]: amount}, tuple(f"0000:{minor}:00.{vf}" for vf in vfs)),
            st.integers(0, 4),
            st.integers(0, 120),
            st.sets(st.integers(0, 2)),
        ),
        st.builds(lambda minor, amount: HeldDevice(FPGA, minor, {OWN[FPGA]: amount}), st.integers(0, 2), st.integers(0, 100)),
    ),
    max_size=4,
)

# The kernel


class Kernel:
    """One node in a table. alike: what pods hold on another one that was described before by the very same; None: there is none."""

    def __init__(self, node: DeviceModel, alike: Sequence[Sequence[HeldDevice]] | None = None) -> None:
        names = NodeTable()
        attribute = names.new_attribute()
        row = names.acquire_row()
        names.set_attribute(attribute, row, INDEX, 0)
        self.rows = np.array([row], np.int32)
        self.row = row
        self.table = DeviceTable(names, attribute)
        if alike is not None:
            self._describe_another(node, alike)
        self.table.clear_node(INDEX)
        self.table.set_accelerators(INDEX, node.accelerators)
        if node.described is not None:
            self.table.set_devices(INDEX, node.described)
        for held in node.held:
            self.table.add(INDEX, held)

    def answers(self, demand: Demand) -> Any:
        """Return all cells, and why a pod is refused, or what it is given."""
        request = compiled(demand)
        code = filter_devices(self.table, request, self.rows)[0]
        return self.table.summary(INDEX), code, allocate(self.table, request, self.row)

    def _describe_another(self, node: DeviceModel, held: Sequence[Sequence[HeldDevice]]) -> None:
        self.table.clear_node(OTHER_INDEX)
        self.table.set_accelerators(OTHER_INDEX, node.accelerators)
        if node.described is not None:
            self.table.set_devices(OTHER_INDEX, node.described)
        for of_pod in held:
            self.table.add(OTHER_INDEX, of_pod)


def compiled(demand: Demand) -> DeviceRequest:
    return DeviceRequest(
        demand.types,
        shared=demand.shared,
        joint=demand.joint,
        same_pcie=demand.same_pcie,
        partition=demand.partition,
        scope=demand.scope,
        templates=demand.templates,
        isolation_provider=demand.isolation_provider,
        unshareable=demand.unshareable,
    )


def expected(node: DeviceModel, demand: Demand, scoring: Weights | None, **options: Any) -> tuple[Allocated, ...] | Refused:
    try:
        return node.allocate(demand, scoring, **options)
    except Refused as refusal:
        return refusal


def check(node: DeviceModel, demand: Demand, scoring: Weights | None, found: Any, *, mask: int, reserve: bool) -> None:
    """Compare what the kernel did with the model, and with everything that would be legal."""
    wanted = expected(node, demand, scoring, mask=mask, reserve=reserve)
    if isinstance(wanted, tuple):
        assert found == wanted
        if wanted:
            assert list(broken_rules(node, demand, found, mask=mask, reserve=reserve)) == []
        return
    if isinstance(found, tuple):
        assert demand.same_pcie, f"found {found}, the model refuses: {wanted}"
        assert list(broken_rules(node, demand, found, mask=mask, reserve=reserve)) == []
        return
    assert reason_of(found) == wanted.reason
    if wanted.reason in ABOUT_A_TYPE:
        assert detail_of(found) == wanted.detail
    if wanted.reason not in {DeviceReason.NO_ISOLATION_PROVIDER, DeviceReason.SHARE_UNSUPPORTED, DeviceReason.NO_TEMPLATE}:
        assert some_legal(node, demand, mask=mask, reserve=reserve) is None


def scoring_of(weights: Weights) -> DeviceScoring:
    return DeviceScoring(weights.weights, most=weights.most)


def held_by(given: Sequence[Allocated]) -> list[HeldDevice]:
    return [HeldDevice(each.type, each.minor, each.amounts, (each.vf[0],) if each.vf else ()) for each in given]


@given(
    nodes(),
    st.lists(st.tuples(demands(), st.integers(0, 3)), min_size=1, max_size=6),
    st.none() | st.lists(held_entries, max_size=2),
    scorings,
    masks,
)
@settings(max_examples=120, deadline=None)
def test_pods_get_what_the_model_gives_them(
    node: DeviceModel,
    sequence: list[tuple[Demand, int]],
    elsewhere: list[list[HeldDevice]] | None,
    weights: Weights,
    mask: int,
) -> None:
    kernel, scoring = Kernel(node, alike=elsewhere), scoring_of(weights)
    for demand, goes in sequence:
        request = compiled(demand)
        filtered = int(filter_devices(kernel.table, request, kernel.rows)[0])
        trial = allocate(kernel.table, request, kernel.row)
        assert filtered == (0 if isinstance(trial, tuple) else trial)
        check(node, demand, None, trial, mask=0, reserve=False)
        within = allocate(kernel.table, request, kernel.row, scoring, mask=mask or None)
        check(node, demand, weights, within, mask=mask, reserve=False)
        if isinstance(trial, tuple):
            assert score_devices(kernel.table, request, scoring, kernel.rows)[0] == node.score(demand, weights)
        if isinstance(within, tuple):
            masked = score_devices(kernel.table, request, scoring, kernel.rows, np.array([mask], np.uint64))
            assert masked[0] == node.score(demand, weights, mask=mask)
        given_now = allocate(kernel.table, request, kernel.row, scoring, reserve=True)
        check(node, demand, weights, given_now, mask=0, reserve=True)
        if isinstance(given_now, tuple) and given_now:
            assert filtered == 0
            kernel.table.add(INDEX, held_by(given_now))
            node = node._replace(held=[*node.held, held_by(given_now)])
            assert overcommitted(node) == []
        if goes == 0 and node.held:
            kernel.table.remove(INDEX, node.held[0])
            node = node._replace(held=node.held[1:])


def overcommitted(node: DeviceModel) -> list[str]:
    """Name every device of which pods hold more than there is, by more than what flooring loses, and virtual functions held twice."""
    found = []
    for kind in DeviceType:
        totals = node.totals(kind)
        for minor, used in node.used(kind).items():
            pods = sum(each.minor == minor and each.type is kind for held in node.held for each in held)
            for name, amount in used.items():
                slack = (totals[minor].get(name, 0) // 100 + 1) * pods if name in {MEMORY, RATIO} else 0
                if name in totals[minor] and amount > totals[minor][name] + slack:
                    found.append(f"{kind.name} {minor}: {amount} {name.name} of {totals[minor][name]}")
            vfs = [bus for held in node.held for each in held if (each.type, each.minor) == (kind, minor) for bus in each.vfs]
            if len(set(vfs)) != len(vfs):
                found.append(f"{kind.name} {minor}: {vfs}")
    return found


# What reservations and victims change

gpu_amounts = st.fixed_dictionaries({CORE: st.integers(-50, 100), RATIO: st.integers(-50, 100), MEMORY: st.integers(-100, 1000)})
by_minor = st.dictionaries(st.integers(0, 6), gpu_amounts, max_size=4)


@given(nodes(), st.lists(held_entries, max_size=3), demands(), scorings, masks)
@settings(max_examples=120, deadline=None)
def test_whatever_pods_hold_is_respected(
    node: DeviceModel, held: list[list[HeldDevice]], demand: Demand, weights: Weights, mask: int
) -> None:
    node = node._replace(held=[each for each in held if each])
    kernel, request = Kernel(node, alike=node.held), compiled(demand)
    found = allocate(kernel.table, request, kernel.row, scoring_of(weights), mask=mask or None)
    check(node, demand, weights, found, mask=mask, reserve=False)


@st.composite
def adjustments(draw: st.DrawFn) -> Adjusted:
    required = draw(st.none() | by_minor)
    limits = {minor: {name: max(0, amount) for name, amount in amounts.items()} for minor, amounts in (required or {}).items()}
    freed = {minor: tuple(f"0000:{minor}:00.{vf}" for vf in range(3)) for minor in draw(st.sets(st.integers(0, 2)))}
    preferred = sorted(draw(st.sets(st.integers(0, 5), max_size=3)))
    return Adjusted({GPU: draw(by_minor)}, {} if required is None else {GPU: limits}, {GPU: preferred}, {RDMA: freed})


# A pod holds a card that is listed no more: it is in use, so that the pairs and quads it belongs to are not left whole.
HOLDS_UNLISTED = DeviceModel(
    NodeDevices({GPU: [DeviceFacts(minor, True, {CORE: 100, MEMORY: 1000, RATIO: 100}, 0, "p0", {}, ()) for minor in (0, 4)]}),
    NodeAccelerators("", "H20", "", honor=True),
)
ONE_GPU = Demand({GPU: TypeDemand({CORE: 100, RATIO: 100}, 1)})

# Of three NICs the first, on the switch of the FPGA, is broken; the second one, there too, comes before the third one elsewhere.
NEAR_AND_FAR = DeviceModel(
    NodeDevices(
        {
            RDMA: [DeviceFacts(minor, minor > 0, {OWN[RDMA]: 100}, 0, "p1" if minor == 2 else "p0", {}, ()) for minor in range(3)],
            FPGA: [DeviceFacts(1, True, {OWN[FPGA]: 100}, 0, "p0", {}, ())],
        }
    ),
    NodeAccelerators("", "", ""),
)
NIC_NEAR_FPGA = Demand({RDMA: TypeDemand({OWN[RDMA]: 100}, 1), FPGA: TypeDemand({OWN[FPGA]: 100}, 1)}, joint=(FPGA, RDMA))


@given(nodes(), st.lists(held_entries, max_size=3), demands(), scorings, adjustments())
@example(HOLDS_UNLISTED, [[HeldDevice(GPU, 5, {MEMORY: 1})]], ONE_GPU, Weights({RATIO: 1}), Adjusted())
@example(NEAR_AND_FAR, [], NIC_NEAR_FPGA, Weights({RATIO: 1}), Adjusted())
@settings(max_examples=120, deadline=None)
def test_reusable_and_required_amounts_count_as_the_model_counts_them(
    node: DeviceModel, held: list[list[HeldDevice]], demand: Demand, weights: Weights, adjusted: Adjusted
) -> None:
    node = node._replace(held=[each for each in held if each])
    kernel, request, scoring = Kernel(node), compiled(demand), scoring_of(weights)
    adjustment = DeviceAdjustment(adjusted.reusable, adjusted.required or None, adjusted.preferred, freed_vfs=adjusted.freed_vfs)
    wanted = expected(node, demand, weights, adjusted=adjusted)
    found = allocate(kernel.table, request, kernel.row, scoring, adjustment=adjustment)
    if isinstance(wanted, tuple):
        assert found == wanted
    elif not isinstance(found, tuple):
        assert reason_of(found) == wanted.reason
    else:
        assert demand.same_pcie
    if isinstance(found, tuple):
        score = score_node(kernel.table, request, scoring, kernel.row, adjustment=adjustment)
        assert score == node.score(demand, weights, adjusted=adjusted)


@given(nodes(), st.lists(held_entries, min_size=1, max_size=5), st.data())
@settings(max_examples=80, deadline=None)
def test_allocating_and_releasing_in_any_order_leaves_no_trace(
    node: DeviceModel, held: list[list[HeldDevice]], data: st.DataObject
) -> None:
    kernel, pods = Kernel(node), [each for each in held if each]
    before = kernel.table.summary(INDEX)
    for each in data.draw(st.permutations(pods)):
        kernel.table.add(INDEX, each)
    again = Kernel(node._replace(held=data.draw(st.permutations(pods))))
    assert kernel.table.summary(INDEX) == again.table.summary(INDEX)
    for each in data.draw(st.permutations(pods)):
        kernel.table.remove(INDEX, each)
    assert kernel.table.summary(INDEX) == before
    assert kernel.table.has_entry(INDEX) is (node.described is not None)


def _ascending(held: list[HeldDevice]) -> list[HeldDevice]:
    """Return each device once, as annotations are read."""
    return [one for _, one in sorted({(one.type, one.minor): one for one in held}.items())]


@given(nodes(), st.lists(held_entries, min_size=1, max_size=5), demands(), st.data())
@settings(max_examples=120, deadline=None)
def test_devices_of_hidden_pods_are_as_if_the_pods_were_not_there(
    node: DeviceModel, held: list[list[HeldDevice]], demand: Demand, data: st.DataObject
) -> None:
    pods = [_ascending(each) for each in held if each]
    gone = data.draw(st.lists(st.sampled_from(range(len(pods))), unique=True)) if pods else []
    kernel = Kernel(node._replace(held=pods))
    hidden = {str(place): LeftDevices(kernel.table, pods[place], restricted=False) for place in gone}
    if not all(left.is_counted_on(INDEX) for left in hidden.values()):
        return
    without = Kernel(node._replace(held=[each for place, each in enumerate(pods) if place not in gone]))
    entry = SimpleNamespace(pods={str(place): None for place in range(len(pods))})
    kernel.table.set_holders(INDEX, len(pods))
    before, known = kernel.answers(demand), entry.pods
    part = HiddenDevices(kernel.table, INDEX, entry, hidden)
    for _ in range(2):
        part.hide()
        assert (kernel.answers(demand), list(entry.pods)) == (without.answers(demand), [uid for uid in known if uid not in hidden])
        assert bool(kernel.table.holding(kernel.rows)[0]) is (len(pods) > len(gone))
        part.restore()
        assert kernel.answers(demand) == before
        assert entry.pods is known
        assert bool(kernel.table.holding(kernel.rows)[0]) is (len(pods) > 0)


@given(nodes(), nodes(), st.lists(held_entries, max_size=3), demands())
@settings(max_examples=80, deadline=None)
def test_a_device_that_changes_under_pods_is_as_one_that_was_always_so(
    before: DeviceModel, after: DeviceModel, held: list[list[HeldDevice]], demand: Demand
) -> None:
    after = after._replace(held=[each for each in held if each])
    if after.described is None:
        return
    kernel = Kernel(before._replace(held=after.held))
    kernel.table.set_devices(INDEX, after.described)
    kernel.table.set_accelerators(INDEX, after.accelerators)
    fresh = Kernel(after)
    assert kernel.table.summary(INDEX) == fresh.table.summary(INDEX)
    for request in (compiled(demand), compiled(ONE_VF)):
        found, wanted = allocate(kernel.table, request, kernel.row), allocate(fresh.table, request, fresh.row)
        if isinstance(found, int) and isinstance(wanted, int):
            assert reason_of(found) == reason_of(wanted)  # the detail may be the number of a model, of which one table has seen another
        else:
            assert found == wanted
