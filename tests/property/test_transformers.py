"""Transformers: twice is once, and by whatever way an object comes to the store, it is transformed exactly once (frameworkext.md §3)."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koordsched.api.core import Container, Node, NodeStatus, Pod, PodSpec, ResourceRequirements
from koordsched.api.kinds import NODE, POD
from koordsched.api.meta import ObjectMeta
from koordsched.api.quantity import nano
from koordsched.cluster.object_store import Arrival, ObjectStore
from koordsched.cluster.port import WatchEvent, WatchEventType
from koordsched.config.features import parse_feature_gates
from koordsched.scheduler.transformers import standard_transformers
from koordsched.scheduler.transformers.pods import DEVICE_ALLOCATED, PREEMPTION_POLICY, REPLACE_RESOURCES, SCHEDULER_NAME

RESERVATION = "node.koordinator.sh/reservation"
GATES = parse_feature_gates(["ReplaceResourcesTransformer=true,PriorityTransformer=true,PreemptionPolicyTransformer=true"])
TRANSFORMERS = standard_transformers(GATES, lambda _obj, _problem: None)
transform_pod, transform_node = TRANSFORMERS.of(POD), TRANSFORMERS.of(NODE)
assert transform_pod is not None
assert transform_node is not None

BATCH_NAMES = ["koordinator.sh/batch-cpu", "kubernetes.io/batch-cpu"]
NAMES = st.sampled_from(["cpu", "memory", *BATCH_NAMES, "kubernetes.io/gpu", "koordinator.sh/gpu", "kubernetes.io/rdma"])
AMOUNTS = st.dictionaries(NAMES, st.sampled_from(["0", "1", "1500m", "2Gi", 3, "none"]), max_size=4)
RESOURCES = st.builds(ResourceRequirements, requests=AMOUNTS, limits=AMOUNTS)
CONTAINERS = st.lists(st.builds(Container, resources=RESOURCES), max_size=2).map(tuple)
# Names that other transformers rename to are not replaced here, or what was in the way once would not be so the second time.
REPLACED = st.sampled_from(["cpu:a/b", "cpu:a/b,memory:c/d", "memory:", "kubernetes.io/rdma:a/b,cpu:", "cpu", ":", ""])
DEVICES = st.sampled_from(['{"gpu":[{"resources":{"kubernetes.io/gpu-core":1}}]}', '{"gpu":[{"resources":{}}]}', "{", "[]", ""])
PODS = st.builds(
    Pod,
    metadata=st.builds(
        ObjectMeta,
        labels=st.fixed_dictionaries(
            {},
            optional={
                SCHEDULER_NAME: st.sampled_from(["", "a", "b"]),
                PREEMPTION_POLICY: st.sampled_from(["Never", "PreemptLowerPriority", "x"]),
                "koordinator.sh/qosClass": st.sampled_from(["LS", "BE", "x"]),
                "koordinator.sh/priority-class": st.sampled_from(["koord-mid", "x"]),
            },
        ),
        annotations=st.fixed_dictionaries({}, optional={REPLACE_RESOURCES: REPLACED, DEVICE_ALLOCATED: DEVICES}),
    ),
    spec=st.builds(
        PodSpec,
        scheduler_name=st.sampled_from(["a", "b"]),
        priority=st.sampled_from([None, 0, 7, 9500]),
        containers=CONTAINERS,
        init_containers=CONTAINERS,
        overhead=AMOUNTS,
    ),
)
NODE_AMOUNTS = st.dictionaries(NAMES, st.sampled_from(["0", "4", "1500m", "2Gi"]), max_size=5)
NODES = st.builds(
    Node,
    metadata=st.builds(
        ObjectMeta,
        annotations=st.fixed_dictionaries(
            {},
            optional={
                RESERVATION: st.sampled_from(
                    ['{"resources":{"cpu":"500m","memory":"1Gi"}}', '{"reservedCPUs":"0"}', "{", '{"resources":{"koordinator.sh/gpu":1}}']
                )
            },
        ),
    ),
    status=st.builds(NodeStatus, allocatable=NODE_AMOUNTS, capacity=NODE_AMOUNTS),
)


@given(PODS)
def test_a_pod_that_is_transformed_again_stays_as_it_is(pod: Pod) -> None:
    assert transform_pod is not None
    once = transform_pod(pod)
    assert transform_pod(once) == once
    assert transform_pod(pod) == once, "the pod itself was not changed"


@given(NODES)
def test_names_and_capacity_of_a_node_that_is_transformed_again_stay_and_amounts_never_fall_below_0(node: Node) -> None:
    assert transform_node is not None
    once = transform_node(node)
    again = transform_node(once)
    assert again.status.capacity == once.status.capacity
    assert again.status.allocatable.keys() == once.status.allocatable.keys()
    assert all(nano(amount) >= 0 for amount in again.status.allocatable.values())
    unreserved = msgspec.structs.replace(once, metadata=ObjectMeta())
    assert transform_node(unreserved) == unreserved


KEYS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["put", "delete", "list", "again", "correct"]), KEYS, NODES), max_size=12)


@given(STEPS)
def test_whatever_way_a_node_comes_by_its_reservation_is_taken_off_once(steps: list[tuple[str, str, Node]]) -> None:
    assert transform_node is not None
    store: ObjectStore[Node] = ObjectStore("nodes")
    store.transform = transform_node
    seen: dict[str, Node] = {}  # by key, what handlers were last called with
    store.add_handler(_Handler(seen))
    actual: dict[str, Node] = {}
    for version, (step, key, drawn) in enumerate(steps, 1):
        meta: dict[str, Any] = {"name": key, "uid": f"uid-{key}", "resource_version": str(version)}
        node = msgspec.structs.replace(drawn, metadata=msgspec.structs.replace(drawn.metadata, **meta))
        if step == "put":
            kind = WatchEventType.MODIFIED if key in actual else WatchEventType.ADDED
            actual[key] = node
            store.apply(WatchEvent(kind, node))
        elif step == "delete" and key in actual:
            store.apply(WatchEvent(WatchEventType.DELETED, actual.pop(key)))
        elif step == "list":  # with a change that no watch has sent
            actual[key] = node
            for _ in store.replace(actual, Arrival.LATER):
                pass
        elif step == "again":  # a list of what is known, as a streamed list's events may bring it twice
            for _ in store.replace(actual, Arrival.LATER):
                pass
        elif step == "correct":
            actual[key] = node
            store.correct(key, node)
        assert store.store == {each: transform_node(made) for each, made in actual.items()}
        assert seen == store.store


class _Handler:
    def __init__(self, seen: dict[str, Node]) -> None:
        self._seen = seen

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._seen[node.metadata.name] = node

    def on_update(self, old: Node, new: Node) -> None:
        assert self._seen[new.metadata.name] == old
        self._seen[new.metadata.name] = new

    def on_delete(self, node: Node, _final_state: object) -> None:
        del self._seen[node.metadata.name]
