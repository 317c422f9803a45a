"""VolumeBinding's Score, on with the gate StorageCapacityScoring: framework.md §1.4, shape {0: 10, 100: 0} unless said otherwise."""

from __future__ import annotations

import pytest
from support.builders import node, pod
from support.plugins import PluginBench
from support.volumes import HOST, VolumeBench, capacity, claim, csi_driver, pod_with, storage_class, volume

from koordsched.config.args import STORAGE_SHAPE, UtilizationShapePoint, VolumeBindingArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.plugins.volumebinding.plugin import VolumeBinding

Shape = tuple[UtilizationShapePoint, ...]


def shape(*points: tuple[int, int]) -> Shape:
    return tuple(UtilizationShapePoint(utilization=utilization, score=score) for utilization, score in points)


def scores(bench: PluginBench, plugin: VolumeBinding, *claims: str) -> dict[str, int] | None:
    state, info = CycleState(), pod_with(*claims).info()
    nodes = bench.cache.nodes()
    plugin.pre_filter(state, info, nodes)
    if plugin.pre_score(state, info, nodes) is not None:
        return None
    found = plugin.score_nodes(state, info, nodes)
    assert found is not None
    return {nodes.info(row).name: score for row, score in zip(nodes.rows.tolist(), found.tolist(), strict=True)}


def made(points: Shape | None = STORAGE_SHAPE) -> tuple[VolumeBench, VolumeBinding]:
    bench = VolumeBench(node("n1"), node("n2"), node("n3"))
    plugin = VolumeBinding(VolumeBindingArgs(shape=points), bench)
    bench.put_object(storage_class("local"), storage_class("other"), storage_class("fast", "d"), csi_driver("d", storage_capacity=True))
    return bench, plugin


def test_without_the_gate_nothing_is_scored() -> None:
    bench, plugin = made(None)
    bench.put_object(volume("v", storage_class="local"), claim("c", storage_class="local"))
    assert scores(bench, plugin, "c") is None


def test_a_pod_without_claims_is_not_scored() -> None:
    bench, plugin = made()
    assert plugin.pre_score(CycleState(), pod().info(), bench.cache.nodes()) is not None


def test_volumes_that_are_there_count_by_request_and_size() -> None:
    bench, plugin = made()
    bench.put_object(volume("half", storage_class="local", size="2Gi", hosts=["n1"]), volume("full", storage_class="local", hosts=["n2"]))
    bench.put_object(volume("third", storage_class="local", size="3Gi", hosts=["n3"]), claim("c", storage_class="local"))
    # 50 %: 100 - 50; 100 %: 0; 33 %: 100 - 33.
    assert scores(bench, plugin, "c") == {"n1": 50, "n2": 0, "n3": 67}


def test_storage_that_is_left_counts_where_volumes_are_made() -> None:
    bench, plugin = made()
    bench.put_object(
        capacity("a", "fast", "10Gi", {HOST: "n1"}), capacity("b", "fast", "4Gi", {HOST: "n2"}), claim("c", storage_class="fast")
    )
    # 10 %: 90; 25 %: 75; no pool on n3.
    assert scores(bench, plugin, "c") == {"n1": 90, "n2": 75, "n3": 0}


def test_requests_of_one_class_add_up_and_classes_are_averaged() -> None:
    bench, plugin = made()
    bench.put_object(volume("a", storage_class="local", size="4Gi"), volume("b", storage_class="local", size="4Gi"))
    bench.put_object(volume("x", storage_class="other", size="2Gi"))
    bench.put_object(claim("c", storage_class="local", size="2Gi"), claim("d", storage_class="local"), claim("e", storage_class="other"))
    # local: 3 of 8 GiB, 37 %, 63; other: 50; mean 56.5, rounded up.
    assert scores(bench, plugin, "c", "d", "e") == {"n1": 57, "n2": 57, "n3": 57}


def test_new_volumes_do_not_count_where_another_claim_gets_one_that_is_there() -> None:
    bench, plugin = made()
    bench.put_object(volume("v", storage_class="local", size="2Gi", hosts=["n1"]), capacity("a", "fast", "10Gi", {}))
    bench.put_object(claim("c", storage_class="local"), claim("d", storage_class="fast"))
    assert (scores(bench, plugin, "c", "d") or {})["n1"] == 50


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (shape((0, 0), (100, 10)), 25),
        (shape((0, 10), (50, 0), (100, 10)), 50),
        (shape((50, 3), (60, 10)), 30),
        (shape((0, 7)), 70),
        (shape((10, 0), (20, 10)), 100),
        (shape((0, 0), (30, 1)), 8),  # 25 of 30 steps to 10, rounded down
        (shape((0, 1), (30, 0)), 2),  # 10 - 25 * 10 / 30, towards zero: 10 - 8
    ],
)
def test_the_shape_is_followed_in_integers(points: Shape, expected: int) -> None:
    bench, plugin = made(points)
    bench.put_object(volume("v", storage_class="local", size="4Gi"), claim("c", storage_class="local"))
    assert (scores(bench, plugin, "c") or {})["n1"] == expected
