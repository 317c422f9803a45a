"""The quick answers of Filter are those of the device allocator, and nothing that can be allocated is refused (deviceshare.md §6.2)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from support.device_tables import GPU, RDMA, DeviceNodes, gpu, gpu_demand, minors, nic, nic_demand, request

from koordsched._core.device_facts import DevicePartition, PartitionDemand

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from koordsched._core.device_facts import DeviceFacts
    from koordsched._core.device_request import DeviceRequest

PERCENTS = st.sampled_from([0, 0, 0, 30, 60, 100])


@st.composite
def described_nodes(draw: DrawFn, *, partitioned: bool = True) -> tuple[DeviceNodes, list[DeviceFacts], list[DeviceFacts]]:
    """Draw a node with up to 6 cards and 4 NICs, some of them in use, and maybe partitions."""
    cards = [gpu(minor, *_place(draw), healthy=draw(st.integers(0, 9)) > 0) for minor in range(draw(st.integers(0, 6)))]
    nics = [nic(minor, *_place(draw), vfs=["a", "b"][: draw(st.integers(0, 2))]) for minor in range(draw(st.integers(0, 4)))]
    fields: dict[str, Any] = {"honor": partitioned and draw(st.booleans())}
    if partitioned and draw(st.booleans()):
        sets = st.sets(st.integers(0, 6), min_size=1, max_size=3)
        listed = draw(st.lists(st.builds(lambda of, score: DevicePartition(sorted(of), score), sets, st.integers(1, 2)), max_size=6))
        fields["partitions"] = {count: [each for each in listed if len(each.minors) == count] for count in (1, 2, 3)}
    node = DeviceNodes().describe((GPU, cards), (RDMA, nics), **fields)
    for facts, of in (*((card, GPU) for card in cards), *((each, RDMA) for each in nics)):
        used = draw(PERCENTS)
        if used:
            node.use(facts.minor, of=of, percent=used)
    return node, cards, nics


def _place(draw: DrawFn) -> tuple[int | None, str]:
    switch = draw(st.integers(0, 19))
    return (None, "") if switch == 19 else (switch % 4 // 2, f"p{switch % 4}")


@st.composite
def requests(draw: DrawFn) -> DeviceRequest:
    percent = draw(st.sampled_from([100, 100, 40]))
    types = {GPU: gpu_demand(draw(st.integers(1, 4)), percent=percent)}
    vf_selector = (lambda _labels: True) if draw(st.booleans()) else None
    if draw(st.booleans()):
        types[RDMA] = nic_demand(draw(st.integers(1, 3)), percent=draw(st.sampled_from([100, 10])), vf_selector=vf_selector)
    joint = draw(st.sampled_from([(), (GPU, RDMA), (RDMA, GPU)]))
    return request(
        types,
        shared=percent < 100,
        joint=[of for of in joint if of in types],
        same_pcie=draw(st.booleans()),
        partition=draw(st.sampled_from([None, None, PartitionDemand(), PartitionDemand(restricted=True)])),
        scope=draw(st.sampled_from([None, None, 1, 2, 3, 4])),
    )


@given(described_nodes(), requests())
def test_filter_answers_what_the_allocator_answers(drawn: tuple[DeviceNodes, Any, Any], asked: DeviceRequest) -> None:
    node = drawn[0]
    filtered, reserved = node.code(asked), node.allocate(asked)
    unscored = node.allocate(asked, None, reserve=False)
    assert filtered == (unscored if isinstance(unscored, str) else "")
    assert (filtered == "") == (not isinstance(reserved, str))


@given(described_nodes(partitioned=False), st.integers(1, 4), st.integers(1, 3), st.sampled_from([(GPU, RDMA), (RDMA, GPU)]))
def test_devices_on_the_same_switches_are_found_whenever_there_are_some(
    drawn: tuple[DeviceNodes, list[DeviceFacts], list[DeviceFacts]], count: int, wanted: int, joint: Any
) -> None:
    node, cards, nics = drawn
    if not cards or not nics or node.code(request({GPU: gpu_demand(count)})):
        return
    asked = request({GPU: gpu_demand(count), RDMA: nic_demand(wanted)}, joint=joint, same_pcie=True)
    free = {(cell.type, cell.minor) for cell in node.table.summary(1) if cell.healthy and not cell.used}
    usable = {of: [each for each in listed if (of, each.minor) in free] for of, listed in ((GPU, cards), (RDMA, nics))}
    found = node.allocate(asked)
    if isinstance(found, str):
        assert not any(_agree(usable, count, wanted, joint))
        return
    given_minors = minors(found)
    assert _switches(cards, given_minors["gpu"]) == _switches(nics, given_minors["rdma"])
    assert len(given_minors["gpu"]) >= count
    assert len(given_minors["rdma"]) >= wanted


def _agree(usable: Any, count: int, wanted: int, joint: Any) -> Any:
    """Look at all sets of cards and of NICs: as many as asked for; of the second type more, if that needs no more than one a switch."""
    for cards in combinations(usable[GPU], count):
        switches = {card.pcie for card in cards if card.numa is not None}
        most = max(wanted, len(switches)) if joint[0] is GPU else wanted
        for nics in combinations(usable[RDMA], most):
            yield switches == {each.pcie for each in nics if each.numa is not None}


def _switches(listed: list[DeviceFacts], given_minors: list[int]) -> set[str]:
    return {each.pcie for each in listed if each.minor in given_minors and each.numa is not None}
