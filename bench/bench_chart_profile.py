"""The suites of cycle and queue with the profile of Koordinator's chart, on nodes that Koordinator's node agent has described.

Limits: identical pods at most 75 us in the algorithm and 190 us from pop to assumed at 5,000 nodes; pods that all differ at most 500 us;
identical pods at 50,000 nodes at most twice the cost at 5,000; a node event at most 20 us a waiting shape. The plugins of the chart that
are not built yet (docs/differences.md) take part as they come.
"""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest
from bench_cycle import place_each, pop_to_assumed
from bench_queue import node_events_while_pods_wait
from clusters import CHART_PROFILE, cluster, different_pod, fresh, identical_pod
from support.builders import pod
from support.world import Setup

from koordsched.config import load_config_text

CHART = Setup(CHART_PROFILE)


@pytest.mark.parametrize("nodes", [5_000, 50_000])
def bench_chart_algorithm_identical_pods(benchmark: Any, nodes: int) -> None:
    place_each(benchmark, cluster(nodes, CHART), identical_pod)


def bench_chart_algorithm_pods_that_all_differ_5000_nodes(benchmark: Any) -> None:
    place_each(benchmark, cluster(5_000, CHART), different_pod, rounds=1000)


def bench_chart_algorithm_160_kinds_of_pods_in_turn(benchmark: Any) -> None:
    """At least 120 kinds of pods find their columns kept when their turn comes again."""
    world = cluster(5_000, CHART)
    pods = cycle(range(160))
    place_each(benchmark, world, lambda _: world.signed(fresh(pod("web").cpu(f"{100 + next(pods)}m")).info()), rounds=800)
    assert len(world.profile.shapes) >= 120


def bench_chart_pop_to_assumed_identical_pods_5000_nodes(benchmark: Any) -> None:
    asyncio.run(pop_to_assumed(benchmark, cluster(5_000, CHART), load_config_text(CHART_PROFILE)))


def bench_chart_node_event_with_100000_unschedulable_pods(benchmark: Any) -> None:
    asyncio.run(node_events_while_pods_wait(benchmark, load_config_text(CHART_PROFILE)))
