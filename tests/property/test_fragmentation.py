"""The fragmentation kernel equals the formula in plain Python for any nodes, pods and mixes, and devices are chosen by the same measure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.device_tables import CORE, GIB, GPU, MEMORY, RATIO, DeviceNodes, gpu, held
from support.fragmentation_model import Requests, added, score, waste

from koordsched._core.device_facts import TypeDemand
from koordsched._core.device_request import DeviceRequest
from koordsched._core.fragmentation import FragmentationScoring, RequestMix, expected_waste, score_fragmentation

MIB = 1 << 20
RESOURCE_CPU, RESOURCE_MEMORY = 1, 2
WHOLE = 100
CPU, BYTES = st.sampled_from([0, 1000, 3152, 8000, 96000]), st.sampled_from([0, MIB - 1, 4 * GIB, 64 * GIB])

requests_ = st.tuples(CPU, BYTES, st.just(1), st.integers(1, 100)) | st.tuples(CPU, BYTES, st.integers(1, 8), st.just(100))
mixes = st.dictionaries(requests_, st.integers(1, 20), max_size=12)
free_shares = st.lists(st.sampled_from([0, 7, 19, 53, 81, 100]), max_size=20)
node_states = st.tuples(
    st.integers(100, 1000).map(lambda tenths: tenths * 100), st.integers(0, 512).map(lambda gib: gib * GIB + 5), free_shares
)


@given(mixes, node_states)
def test_expected_waste_is_that_of_the_formula(requests: Requests, node: tuple[int, int, list[int]]) -> None:
    found = expected_waste(RequestMix(requests), *node)
    assert found == pytest.approx(float(waste(requests, *node)), rel=1e-12, abs=1e-9)


@settings(max_examples=200)
@given(mixes, st.lists(node_states, min_size=1, max_size=8), requests_ | st.tuples(CPU, BYTES, st.just(0), st.just(0)))
def test_scores_of_rows_are_what_a_placement_adds(
    requests: Requests, states: list[tuple[int, int, list[int]]], asked: tuple[int, int, int, int]
) -> None:
    cluster = DeviceNodes()
    rows = [cluster.row, *(cluster.add() for _ in states)][: len(states)]
    for row, (cpu, memory, shares) in zip(rows, states, strict=True):
        cluster.nodes.set_allocatable(row, {RESOURCE_CPU: cpu, RESOURCE_MEMORY: memory})
        cluster.describe((GPU, [gpu(minor) for minor in range(len(shares))]), row=row)
        cluster.table.add(row + 1, [held(minor, GPU, 100 - share) for minor, share in enumerate(shares) if share < 100])
    pod_cpu, pod_memory, count, share = asked
    request = DeviceRequest({GPU: TypeDemand({CORE: share, RATIO: share}, count)}, shared=share < WHOLE) if count else None
    scoring = FragmentationScoring(RequestMix(requests))
    found = score_fragmentation(cluster.table, request, scoring, pod_cpu, pod_memory, np.array(rows, np.int32))
    for row, (cpu, memory, shares), given_score in zip(rows, states, found, strict=True):
        if not shares:
            assert given_score == (0 if count else 50)
        elif sum(free >= share for free in shares) >= count and cpu >= pod_cpu and memory >= pod_memory:
            more, chosen = added(requests, cpu, memory, shares, asked)
            exact = score(more)
            assert given_score == int(exact) or exact == pytest.approx(round(exact), abs=1e-7)
            if count == 1 and share < WHOLE and request is not None:
                cluster.nodes.set_allocatable(row, {RESOURCE_CPU: cpu - pod_cpu, RESOURCE_MEMORY: memory - pod_memory})
                scoring.aim(cluster.nodes, row)
                assert cluster.take(request, scoring, row) == {"gpu": chosen}


@pytest.mark.parametrize(("mix", "minor", "waste_after"), [({(0, 0, 1, 50): 1}, 0, 0), ({(0, 0, 1, 80): 1}, 1, 50)])
def test_a_request_by_memory_takes_its_share_of_each_gpu(mix: Requests, minor: int, waste_after: int) -> None:
    # A quarter of minor 0 leaves 75 %, half of minor 1 leaves 50 %. Requests of 50 % can use both, those of 80 % neither.
    cluster = DeviceNodes().describe((GPU, [gpu(0, memory=80 * GIB), gpu(1, memory=40 * GIB)]))
    cluster.nodes.set_allocatable(cluster.row, {RESOURCE_CPU: 1000})
    scoring = FragmentationScoring(RequestMix(mix))
    request = DeviceRequest({GPU: TypeDemand({MEMORY: 20 * GIB})}, shared=True)
    row = np.array([cluster.row], np.int32)
    assert score_fragmentation(cluster.table, request, scoring, 0, 0, row)[0] == int(100 / (1 + math.exp(waste_after / 50)))
    scoring.aim(cluster.nodes, cluster.row)
    assert cluster.take(request, scoring) == {"gpu": [minor]}


def test_a_mix_refuses_what_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="1 GPUs of 101 %"):
        RequestMix({(0, 0, 1, 101): 1})
    with pytest.raises(ValueError, match="129 requests: at most 128"):
        RequestMix({(cpu, 0, 1, 50): 1 for cpu in range(129)})
    with pytest.raises(IndexError):
        FragmentationScoring(RequestMix({})).aim(DeviceNodes().nodes, 1 << 20)
