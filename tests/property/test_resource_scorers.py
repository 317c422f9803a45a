"""NodeResourcesFitPlus and ScarceResourceAvoidance equal their formulas in plain Python (frameworkext.md §6), on columns that were kept
while nodes and pods came, changed and went."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.world import Setup, World

from koordsched.api.core import Container, Pod, Quantity

GPU, CARD, DISK = "x.com/gpu", "y.com/card", "ephemeral-storage"
RESOURCES = ["cpu", "memory", DISK, GPU, CARD]
NODES = ["n0", "n1", "n2"]
BASE = {"m": Fraction(1, 1000), "u": Fraction(1, 10**6), "Mi": Fraction(1 << 20), "": Fraction(1)}
DEFAULTS = {"cpu": 100, "memory": 200 << 20}

MINIMAL = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    filter: {disabled: [{name: '*'}]}
    preScore: {disabled: [{name: '*'}]}
    score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFitPlus}, {name: ScarceResourceAvoidance}]}
  pluginConfig:
"""

quantities: dict[str, st.SearchStrategy[Quantity]] = {
    "cpu": st.sampled_from(["0", "1m", "1500u", "100m", "250m", "1", "3"]),
    "memory": st.sampled_from(["0", "1", "1500m", "100Mi", "200Mi", "1000Mi"]),
    DISK: st.sampled_from(["0", "1", "7", "100Mi"]),
    GPU: st.sampled_from(["0", "1", "3"]),
    CARD: st.sampled_from(["1", "2"]),
}
lists = st.fixed_dictionaries({}, optional=quantities)
pod_levels = st.fixed_dictionaries({}, optional={name: quantities[name] for name in ("cpu", "memory")})
capacities = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "1", "4", "333m"]),
        "memory": st.sampled_from(["0", "1000Mi", "4096Mi"]),
        DISK: st.sampled_from(["0", "10", "1000Mi"]),
        GPU: st.sampled_from(["0", "1", "8"]),
        CARD: st.sampled_from(["0", "3"]),
    },
)
weighted = st.fixed_dictionaries({"type": st.sampled_from(["LeastAllocated", "MostAllocated"]), "weight": st.integers(0, 5)})
fit_plus = st.dictionaries(st.sampled_from(RESOURCES), weighted)
scarce = st.sets(st.sampled_from(RESOURCES)).map(sorted)


@st.composite
def pods(draw: st.DrawFn, index: int = 0) -> PodBuilder:
    """Draw a pod of any containers, with init containers, sidecars, overhead and pod-level requests now and then."""
    made = pod(f"p{index}")
    for name, quantity in draw(lists).items():
        made = made.request(name, quantity)
    for requests in draw(st.lists(lists, max_size=2)):
        made = made.container(requests)
    for requests in draw(st.lists(lists, max_size=2)):
        made = made.sidecar(requests) if draw(st.booleans()) else made.init_container(requests)
    made = made.overhead(draw(lists)) if draw(st.booleans()) else made
    return made.pod_level(draw(pod_levels)) if draw(st.integers(0, 3)) == 0 else made


def exact(quantity: Any) -> Fraction:
    suffix = str(quantity).lstrip("0123456789")
    return Fraction(str(quantity).removesuffix(suffix)) * BASE[suffix]


def rounded(resource: str, amount: Fraction) -> int:
    return math.ceil(amount * 1000 if resource == "cpu" else amount)


# The plain formulas


def total(made: Pod, resource: str) -> Fraction:
    """Return what the pod requests: component-helpers' PodRequests."""
    spec = made.spec
    level = spec.resources.requests if spec.resources is not None else {}
    overhead = exact(spec.overhead.get(resource, "0"))
    if resource in level:
        return exact(level[resource]) + overhead
    return containers_total(made, resource, Fraction(0)) + overhead


def containers_total(made: Pod, resource: str, default: Fraction) -> Fraction:
    def of(container: Container) -> Fraction:
        requests = container.resources.requests
        return exact(requests[resource]) if resource in requests else default

    running = sum([of(container) for container in made.spec.containers], Fraction(0))
    sidecars = most = Fraction(0)
    for container in made.spec.init_containers:
        if container.restart_policy == "Always":
            sidecars += of(container)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + of(container))
    return max(running + sidecars, most)


def counted(made: Pod, resource: str) -> int:
    """Return what a pod that runs adds to its node for scoring: cpu and memory with defaults where the pod as a whole says nothing."""
    if resource not in DEFAULTS:
        return rounded(resource, total(made, resource))
    spec = made.spec
    overhead = exact(spec.overhead.get(resource, "0"))
    if spec.resources is not None and resource in spec.resources.requests:
        return rounded(resource, exact(spec.resources.requests[resource]) + overhead)
    everything = [*spec.containers, *spec.init_containers]
    mentioned = resource in spec.overhead or any(resource in container.resources.requests for container in everything)
    default = Fraction(DEFAULTS[resource], 1000 if resource == "cpu" else 1)
    if spec.resources is not None and spec.resources.requests and mentioned:
        default = Fraction(0)  # with pod-level requests only a resource that nothing mentions has a default
    return rounded(resource, containers_total(made, resource, default) + overhead)


def added(made: Pod, resource: str) -> int:
    """Return what FitPlus takes the incoming pod for."""

    def of(container: Container) -> int:
        requests = container.resources.requests
        return rounded(resource, exact(requests[resource])) if resource in requests else DEFAULTS.get(resource, 0)

    spec = made.spec
    running, starting = sum(map(of, spec.containers)), max(map(of, spec.init_containers), default=0)
    return max(running, starting) + rounded(resource, exact(spec.overhead.get(resource, "0")))


def fit_plus_score(args: dict[str, Any], offered: dict[str, str], running: list[Pod], made: Pod) -> int:
    score = weights = 0
    for resource, spec in args.items():
        if total(made, resource) <= 0:
            continue
        capacity = rounded(resource, exact(offered.get(resource, "0")))
        requested = sum(counted(each, resource) for each in running) + added(made, resource)
        if capacity == 0:
            part = 0
        elif spec["type"] == "MostAllocated":
            part = min(requested, capacity) * 100 // capacity
        else:
            part = 0 if requested > capacity else (capacity - requested) * 100 // capacity
        score, weights = score + spec["weight"] * part, weights + spec["weight"]
    return score // weights if weights else 100


def scarce_score(args: list[str], offered: dict[str, str], made: Pod) -> int:
    unrequested = {resource for resource in RESOURCES if exact(offered.get(resource, "0")) > 0 and total(made, resource) <= 0}
    hit = unrequested & set(args)
    return (len(unrequested) - len(hit)) * 100 // len(unrequested) if hit else 100


# Against the plugins


class Model:
    """A world and what is on it, in plain Python."""

    def __init__(self, fit: dict[str, Any], avoid: list[str]) -> None:
        self.fit, self.avoid = fit, avoid
        names = [("NodeResourcesFitPlus", fit), ("ScarceResourceAvoidance", avoid)]
        args = "".join(f"  - {{name: {name}, args: {{resources: {value}}}}}\n" for name, value in names)
        self.world = World(Setup(MINIMAL + args))
        self.nodes: dict[str, dict[str, str]] = {}
        self.running: dict[str, tuple[str, Pod]] = {}

    def set_node(self, name: str, offered: dict[str, str]) -> None:
        made: NodeBuilder = node(name)
        for resource, quantity in offered.items():
            made = made.allocatable(resource, quantity)
        self.world.cache.set_node(made.build())
        self.nodes[name] = offered

    def run_pod(self, uid: str, builder: PodBuilder, name: str) -> None:
        self.world.cache.set_pod(builder.uid(uid).on(name).info(counted_on_node=True), name)
        self.running[uid] = (name, builder.build())

    def end_pod(self, uid: str) -> None:
        self.world.cache.remove_pod(uid)
        del self.running[uid]

    def check(self, builder: PodBuilder) -> None:
        """Compare what the kept columns hold of the pod."""
        info, made = self.world.signed(builder.info()), builder.build()
        shapes = self.world.profile.shapes
        shape = shapes.pre_filter(info)
        shapes.filter(shape, info)
        shapes.pre_score(shape, info)
        shapes.score(shape, info)
        answers, expected = {}, {}
        for row in self.world.cache.table.live_rows().tolist():
            name = self.world.cache.nodes().info(row).name
            answers[name] = shape.evaluation.scores(row)[0]
            there = [each for where, each in self.running.values() if where == name]
            expected[name] = [fit_plus_score(self.fit, self.nodes[name], there, made), scarce_score(self.avoid, self.nodes[name], made)]
        assert answers == expected


steps = st.lists(
    st.tuples(st.just("node"), st.sampled_from(NODES), capacities)
    | st.tuples(st.just("run"), st.sampled_from(NODES), pods())
    | st.tuples(st.just("end"), st.integers(0, 5), st.none()),
    max_size=8,
)

HALVES = pod("p").request("cpu", "1500u").container({"cpu": "1500u"})


@given(fit=fit_plus, avoid=scarce, waiting=st.lists(pods(), min_size=1, max_size=3), sequence=steps)
@example(
    fit={"cpu": {"type": "LeastAllocated", "weight": 1}},
    avoid=[GPU],
    waiting=[HALVES, pod("q").pod_level({"cpu": "1"}).sidecar({"cpu": "3"})],
    sequence=[("node", "n0", {"cpu": "333m", GPU: "1"}), ("run", "n0", HALVES), ("node", "n1", {"cpu": "1", CARD: "3"})],
)
@settings(max_examples=150)
def test_the_scorers_equal_their_formulas(
    fit: dict[str, Any], avoid: list[str], waiting: list[PodBuilder], sequence: list[tuple[str, Any, Any]]
) -> None:
    model = Model(fit, avoid)
    for index, (kind, where, what) in enumerate(sequence):
        if kind == "node":
            model.set_node(where, what)
        elif kind == "run" and where in model.nodes:
            model.run_pod(f"running-{index}", what, where)
        elif kind == "end" and model.running:
            model.end_pod(sorted(model.running)[where % len(model.running)])
        for builder in waiting:
            model.check(builder)
