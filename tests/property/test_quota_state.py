"""After any sequence of events all numbers are those of the plain model of the objects that there are (elasticquota.md §19 item 26)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support import quota_model
from support.builders import node, pod
from support.quota_model import ModelPod, ModelQuota, QuotaModel, scale
from support.quotas import QuotaBench, of_quota, quota

from koordsched.api.kinds import ELASTIC_QUOTA
from koordsched.api.quantity import nano
from koordsched.framework.cycle_state import CycleState

if TYPE_CHECKING:
    from koordsched.api.core import Node, Pod
    from koordsched.api.koordinator.quotas import ElasticQuota

NAMES = ("a", "b", "c", "d")
NAMESPACES = ("a", "x", "y")
DEFAULT = "koordinator-default-quota"
PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"

amounts = st.dictionaries(
    st.sampled_from(("cpu", "memory", "example.com/gpu")), st.sampled_from(("0", "1", "2500m", "7", "20")), max_size=3
)
namespaces = st.sampled_from(('["x"]', '["y","x"]', "", "no list"))
quota_events = st.builds(
    lambda name, **fields: ("quota", name, fields),
    name=st.sampled_from(NAMES),
    most=amounts,
    least=amounts,
    parent=st.sampled_from(("", *NAMES)),
    namespace=st.sampled_from(("a", "team")),
    annotations=st.builds(lambda text: {"namespaces": text}, namespaces),
    allow_lent_resource=st.sampled_from(("true", "false")),
)
pod_events = st.tuples(
    st.just("pod"),
    st.sampled_from(("p", "q", "r")),
    st.sampled_from(NAMESPACES),
    st.sampled_from(("", *NAMES)),
    amounts,
    st.booleans(),
    st.booleans(),
)
events = st.one_of(
    quota_events,
    pod_events,
    pod_events,
    st.tuples(st.just("node"), st.sampled_from(("n", "m")), st.sampled_from(("0", "5", "30"))),
    st.tuples(st.just("remove quota"), st.sampled_from(NAMES)),
    st.tuples(st.just("remove pod"), st.sampled_from(("p", "q", "r")), st.sampled_from(NAMESPACES)),
    st.tuples(st.just("remove node"), st.sampled_from(("n", "m"))),
    st.tuples(st.just("reserve"), st.sampled_from(("p", "q", "r")), st.sampled_from(NAMESPACES), st.booleans()),
    st.tuples(st.just("read")),
)


class Cluster:
    """The objects that there are, and the plugin that sees them come and go."""

    def __init__(self) -> None:
        self.bench = QuotaBench()
        self.quotas: dict[str, ElasticQuota] = {}  # by namespace/name
        self.pods: dict[str, Any] = {}
        self.nodes: dict[str, Node] = {}
        self.reserved: set[str] = set()

    def apply(self, event: tuple[Any, ...]) -> None:
        kind, *rest = event
        getattr(self, kind.replace(" ", "_"))(*rest)

    def quota(self, name: str, fields: dict[str, Any]) -> None:
        key = f"{fields['namespace']}/{name}"
        if any(other.partition("/")[2] == name and other != key for other in self.quotas):
            return
        made = quota(name, **fields)
        self.quotas[key] = made
        self.bench.came(ELASTIC_QUOTA, made)

    def remove_quota(self, name: str) -> None:
        for key in [key for key in self.quotas if key.partition("/")[2] == name]:
            del self.quotas[key]
            self.bench.went(ELASTIC_QUOTA, key)

    def pod(self, name: str, namespace: str, label: str, requests: dict[str, str], *flags: bool) -> None:
        is_bound, fixed = flags
        builder = pod(name, namespace)
        for resource, amount in requests.items():
            builder = builder.request(resource, amount)
        builder = of_quota(builder, label) if label else builder
        builder = builder.label(PREEMPTIBLE, "false") if fixed else builder
        key = f"{namespace}/{name}"
        if is_bound or (key in self.pods and self.pods[key].build().spec.node_name):
            builder = builder.on("n")
        self.pods[key] = builder
        self.bench.pod(builder)

    def remove_pod(self, name: str, namespace: str) -> None:
        key = f"{namespace}/{name}"
        if key in self.pods:
            del self.pods[key]
            self.reserved.discard(key)
            self.bench.remove_pod(name, namespace)

    def node(self, name: str, cpu: str) -> None:
        builder = node(name).cpu(cpu).memory("20")
        self.nodes[name] = builder.build()
        self.bench.set(builder)

    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self.bench.remove(name)

    def reserve(self, name: str, namespace: str, reserves: bool) -> None:
        key = f"{namespace}/{name}"
        if key not in self.pods:
            return
        info = self.pods[key].info()
        if reserves:
            self.reserved.add(key)
            self.bench.plugin.reserve(CycleState(), info, "n")
        else:
            self.reserved.discard(key)
            self.bench.plugin.unreserve(CycleState(), info, "n")

    def read(self) -> None:
        check(self.bench, self.model())

    def model(self) -> QuotaModel:
        """Return the model of the objects as they are."""
        found = QuotaModel()
        objects = {key.partition("/")[2]: obj for key, obj in self.quotas.items()}
        unlimited = dict.fromkeys(("cpu", "memory"), (2**63 - 1) // 5 * 10**9)
        for name, own in (("koordinator-system-quota", quota_model.SYSTEM), (DEFAULT, quota_model.DEFAULT)):
            assert name
            found.quotas[own] = ModelQuota(quota_model.ROOT, max=unlimited)
        parents = {name: obj.metadata.labels.get("quota.scheduling.koordinator.sh/parent", "") for name, obj in objects.items()}
        for name, obj in objects.items():
            lends = obj.metadata.labels["quota.scheduling.koordinator.sh/allow-lent-resource"] != "false"
            least, most = ({key: nano(text) for key, text in written.items()} for written in (obj.spec.min, obj.spec.max))
            found.quotas[name] = ModelQuota(_parent(name, parents), most, least, None, lends)
        for builder in self.pods.values():
            made: Pod = builder.build()
            key = f"{made.metadata.namespace}/{made.metadata.name}"
            requests = {name: nano(text) for name, text in made.spec.containers[0].resources.requests.items()}
            is_assigned = bool(made.spec.node_name) or key in self.reserved
            fixed = made.metadata.labels.get(PREEMPTIBLE) == "false"
            found.pods[key] = ModelPod(_quota_of(made, objects), requests, is_assigned, fixed)
        for made_node in self.nodes.values():
            for name, text in made_node.status.allocatable.items():
                found.total[name] = found.total.get(name, 0) + nano(text)
        return found


def _parent(name: str, parents: dict[str, str]) -> str:
    """Return the parent that counts: "" for orphans, and for quotas that are their own ancestors."""
    parent = parents[name]
    if not parent:
        return quota_model.ROOT
    above, seen = parent, set()
    while above in parents and above not in seen:
        if above == name:
            return ""
        seen.add(above)
        above = parents[above]
    return parent if parent in parents else ""


def _quota_of(made: Pod, objects: dict[str, ElasticQuota]) -> str:
    label = made.metadata.labels.get("quota.scheduling.koordinator.sh/name")
    if label:
        return label if label in objects else quota_model.DEFAULT
    namespace = made.metadata.namespace
    if namespace in objects and objects[namespace].metadata.namespace == namespace:
        return namespace
    for name in sorted(objects):
        if f'"{namespace}"' in objects[name].metadata.annotations["quota.scheduling.koordinator.sh/namespaces"]:
            return name
    return quota_model.DEFAULT


def check(bench: QuotaBench, model: QuotaModel) -> None:
    runtimes = model.runtimes()
    names = {quota_model.DEFAULT: DEFAULT, quota_model.SYSTEM: "koordinator-system-quota"}
    assert {names.get(name, name) for name in model.quotas} | {"koordinator-root-quota"} == bench.state.quotas.keys()
    for name in model.quotas:
        known = bench.state.quotas[names.get(name, name)]
        assert known.amounts("used") == _nonzero(model.used(name)), name
        assert known.amounts("fixed_used") == _nonzero(model.used(name, fixed=True)), name
        assert known.amounts("request") == _nonzero(model.request(name)), name
        assert known.amounts("child_request") == _nonzero(model.child_request(name)), name
        assert known.runtimes() == {key: amount * scale(key) for key, amount in runtimes.get(name, {}).items()}, name
        victims = Counter(counted.priority for counted in known.pods.values() if counted.entry.assigned and not counted.entry.fixed)
        assert known.victims == victims, name
        assert {counted.key for counted in known.pods.values()} == {key for key, made in model.pods.items() if made.quota == name}


def _nonzero(found: dict[str, int]) -> dict[str, int]:
    return {key: amount for key, amount in found.items() if amount}


@given(st.lists(events, max_size=40))
@settings(max_examples=150, deadline=None)
def test_numbers_follow_from_the_objects_that_there_are(history: list[tuple[Any, ...]]) -> None:
    cluster = Cluster()
    for event in history:
        cluster.apply(event)
    model = cluster.model()
    check(cluster.bench, model)
    restarted = Cluster()
    for key, obj in reversed(cluster.quotas.items()):
        restarted.quotas[key] = obj
        restarted.bench.came(ELASTIC_QUOTA, obj)
    for builder in cluster.pods.values():
        restarted.bench.pod(builder)
    for name, made_node in cluster.nodes.items():
        restarted.node(name, str(made_node.status.allocatable["cpu"]))
    for made in model.pods.values():
        made.assigned = False
    for key, builder in cluster.pods.items():
        model.pods[key].assigned = bool(builder.build().spec.node_name)  # what was reserved and not bound is pending again
    check(restarted.bench, model)
