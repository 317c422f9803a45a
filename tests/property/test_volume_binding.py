"""What VolumeBinding finds for all nodes at once is what a search of each node by itself finds, and no volume is ever assumed twice."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node
from support.volumes import HOST, VolumeBench, affinity, capacity, claim, csi_driver, pod_with, storage_class, volume

from koordsched.config.args import VolumeBindingArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import Status
from koordsched.plugins.volumebinding.filtering import BIND_CONFLICT, NOT_ENOUGH_SPACE, CompiledClaims
from koordsched.plugins.volumebinding.plugin import ASSUMED, COMPILED, VolumeBinding

ZONE = "topology.kubernetes.io/zone"
ZONES = {"n0": "a", "n1": "a", "n2": "b", "n3": ""}
NODES = tuple(ZONES)
CLASSES = {"local": False, "fast": True}  # whether it provisions

PLACES: dict[str, tuple[dict[str, Any] | None, set[str]]] = {
    "everywhere": (None, set(NODES)),
    "n0": (affinity(HOST, "n0"), {"n0"}),
    "n1 or n2": (affinity(HOST, "n1", "n2"), {"n1", "n2"}),
    "zone a": (affinity(ZONE, "a"), {"n0", "n1"}),
    "not zone a": (
        {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]}]}},
        {"n2", "n3"},
    ),
    "nowhere": ({"required": {"nodeSelectorTerms": []}}, set()),
}

volumes = st.lists(st.tuples(st.sampled_from(sorted(CLASSES)), st.integers(1, 4), st.sampled_from(sorted(PLACES))), max_size=7)
claims = st.lists(st.tuples(st.sampled_from(sorted(CLASSES)), st.integers(1, 4)), min_size=1, max_size=3)
pools = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["n0", "n1", "a", "b", "all"])), max_size=3)


def made(volumes: list[tuple[str, int, str]], claims: list[tuple[str, int]]) -> tuple[VolumeBench, VolumeBinding]:
    bench = VolumeBench(*(node(name).label(ZONE, zone) if zone else node(name) for name, zone in ZONES.items()))
    plugin = VolumeBinding(VolumeBindingArgs(), bench)
    bench.put_object(storage_class("local"), storage_class("fast", "d"))
    for i, (name, size, place) in enumerate(volumes):
        where = PLACES[place][0]
        reach: dict[str, Any] = {} if where is None else {"nodeAffinity": where}
        bench.put_object(volume(f"v{i}", storage_class=name, size=f"{size}Gi", **reach))
    bench.put_object(*(claim(f"c{i}", storage_class=name, size=f"{size}Gi") for i, (name, size) in enumerate(claims)))
    return bench, plugin


def search(
    name: str, volumes: list[tuple[str, int, str]], claims: list[tuple[str, int]], enough: dict[int, bool]
) -> tuple[int, dict[str, str]]:
    """Return the code of one node and what each claim gets there, by trying everything in order."""
    taken: dict[str, str] = {}
    order = sorted(range(len(claims)), key=lambda i: claims[i][1])
    for i in order:
        storage, size = claims[i]
        fitting = [
            (capacity, f"v{j}")
            for j, (other, capacity, place) in enumerate(volumes)
            if other == storage and capacity >= size and name in PLACES[place][1] and f"v{j}" not in taken.values()
        ]
        if fitting:
            taken[f"c{i}"] = min(fitting)[1]
    for i in order:
        if f"c{i}" not in taken:
            if not CLASSES[claims[i][0]]:
                return BIND_CONFLICT, taken
            if not enough.get(claims[i][1], True):
                return NOT_ENOUGH_SPACE, taken
    return 0, taken


@given(volumes, claims, st.one_of(st.none(), pools))
@settings(max_examples=120)
def test_all_nodes_at_once_is_each_node_by_itself(
    volumes: list[tuple[str, int, str]], claims: list[tuple[str, int]], pools: list[tuple[int, str]] | None
) -> None:
    bench, plugin = made(volumes, claims)
    reach = {"n0": {HOST: "n0"}, "n1": {HOST: "n1"}, "a": {ZONE: "a"}, "b": {ZONE: "b"}, "all": {}}
    if pools is not None:
        bench.put_object(csi_driver("d", storage_capacity=True))
        bench.put_object(*(capacity(f"p{i}", "fast", f"{size}Gi", reach[where]) for i, (size, where) in enumerate(pools)))
    state, info, nodes = CycleState(), pod_with(*(f"c{i}" for i in range(len(claims)))).info(), bench.cache.nodes()
    assert plugin.pre_filter(state, info, nodes) is None
    compiled: CompiledClaims = state.read(COMPILED)
    outcome = compiled.evaluate(nodes)
    for index, row in enumerate(nodes.rows.tolist()):
        name = nodes.info(row).name
        here = {where for where, labels in reach.items() if labels.items() <= {HOST: name, ZONE: ZONES[name]}.items()}
        enough = {} if pools is None else {size: any(most >= size and where in here for most, where in pools) for size in range(1, 5)}
        code, taken = search(name, volumes, claims, enough)
        chosen = {each.claim.object.metadata.name: each.volume.metadata.name for each in compiled.decisions(outcome, index) if each.volume}
        assert (name, int(outcome.codes[index]), chosen) == (name, code, taken)
        alone = compiled.evaluate(bench.cache.select(np.array([row], np.int32)))
        assert int(alone.codes[0]) == code


@given(
    volumes,
    st.lists(st.tuples(st.sampled_from(sorted(CLASSES)), st.integers(1, 4)), min_size=3, max_size=3),
    st.lists(
        st.tuples(st.sampled_from(["one", "two", "three"]), st.sets(st.sampled_from(["c0", "c1", "c2"]), min_size=1), st.booleans()),
        max_size=12,
    ),
)
@settings(max_examples=80)
def test_no_volume_is_assumed_for_two_claims(
    volumes: list[tuple[str, int, str]], claims: list[tuple[str, int]], steps: list[tuple[str, set[str], bool]]
) -> None:
    bench, plugin = made(volumes, claims)
    holding: dict[str, tuple[CycleState, Any, str]] = {}
    for name, used, keep in steps:
        if name in holding:
            state, info, where = holding.pop(name)
            plugin.unreserve(state, info, where)
        state, info, nodes = CycleState(), pod_with(*sorted(used), name=name).info(), bench.cache.nodes()
        refusal = plugin.pre_filter(state, info, nodes)
        assert not isinstance(refusal, Status)
        codes = plugin.filter_nodes(state, info, nodes)
        assert codes is not None
        if (codes == 0).any():
            where = nodes.info(int(nodes.rows[int(np.argmax(codes == 0))])).name
            assert plugin.reserve(state, info, where) is None
            if keep:
                holding[name] = (state, info, where)
            else:
                plugin.unreserve(state, info, where)
        check(plugin, holding)
    for state, info, where in holding.values():
        plugin.unreserve(state, info, where)
    check(plugin, {})


def check(plugin: VolumeBinding, holding: dict[str, tuple[CycleState, Any, str]]) -> None:
    """Hold that exactly the decisions of the pods that hold nodes are assumed."""
    volumes: dict[str, set[str]] = {}
    nodes: dict[str, set[str]] = {}
    for state, _, where in holding.values():
        for decision in state.read(ASSUMED):
            if decision.volume is not None:
                volumes.setdefault(decision.volume.metadata.name, set()).add(decision.claim.key)
            else:
                nodes.setdefault(decision.claim.key, set()).add(where)
    assumed = plugin._state.inventory.assumed
    assert {name: {each.target} for name, each in assumed._volumes.items()} == volumes
    assert {name: {each.target} for name, each in assumed._nodes.items()} == nodes
    assert all(len(each) == 1 for each in (*volumes.values(), *nodes.values()))
    owners = [next(iter(each)) for each in volumes.values()]
    assert len(owners) == len(set(owners))
