"""What owners and strangers see is what a plain model sees that copies nodes as Koordinator does; and nothing is given twice.

The model (reservation.md §6 to §9): a node counts every reservation in full and every owner again; for each pod a copy of it is made, from
which what owners of unmatched reservations have taken is subtracted (no more than there is, D1) and matched reservations are removed.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import PodBuilder, node, pod
from support.reservations import ReservationWorld, available, linked

from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import EXACT_MATCH, RESERVATION_IGNORED
from koordsched.api.koordinator.reservations import Reservation, ReservationStatus
from koordsched.api.podinfo import PodInfo

NODES = ("n0", "n1")
POLICIES = ("", "Aligned", "Restricted")
GIB = 1 << 30


class Kind(msgspec.Struct, frozen=True):
    """What a reservation may be."""

    amounts: dict[str, str]
    owner: str = "x"
    spec: dict[str, Any] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


KINDS = (
    Kind({"cpu": "3"}),
    Kind({"cpu": "2", "memory": "2Gi"}),
    Kind({"cpu": "2", "memory": "2Gi"}, "y"),
    Kind({"cpu": "1", "pods": "1"}),
    Kind({"cpu": "4"}, spec={"allocateOnce": True}),
    Kind({"cpu": "3"}, labels={"scheduling.koordinator.sh/reservation-order": "7"}),
    Kind({"cpu": "3"}, labels={"scheduling.koordinator.sh/reservation-order": "2"}),
    Kind({"cpu": "3"}, annotations={"node.koordinator.sh/reservation": '{"resources":{"cpu":"1"}}'}),
    Kind({"cpu": "3"}, spec={"unschedulable": True}),
    Kind({"cpu": "2", "memory": "1Gi"}, spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}),
    Kind({"cpu": "2", "memory": "2Gi"}, annotations={"scheduling.koordinator.sh/reservation-restricted-options": '{"resources":["cpu"]}'}),
    Kind({"memory": "2Gi"}, labels={"tier": "gold"}),
)
NAMED = '{"name":"r1"}'
ASKING: tuple[PodBuilder, ...] = (
    pod().cpu("1"),
    pod().cpu("3").label("app", "x"),
    pod().cpu("1").memory("1Gi").label("app", "x"),
    pod().cpu("2").memory("2Gi").label("app", "y"),
    pod().cpu("2").label("app", "x").annotation(RESERVATION_AFFINITY, "{}"),
    pod().cpu("1").label("app", "x").annotation(RESERVATION_AFFINITY, NAMED),
    pod().cpu("2").memory("2Gi").label("app", "x").annotation(RESERVATION_AFFINITY, NAMED),
    pod().cpu("1").label("app", "x").annotation(RESERVATION_AFFINITY, '{"reservationSelector":{"tier":"gold"}}'),
    pod().cpu("2").label("app", "x").annotation(EXACT_MATCH, '{"resourceNames":["cpu"]}'),
    pod().cpu("5").label("app", "x"),
    pod().cpu("6").label(RESERVATION_IGNORED, "true"),
    pod().label("app", "x"),
)

names, where = st.sampled_from([f"r{i}" for i in range(4)]), st.sampled_from(NODES)
kinds, policies, asking = st.integers(0, len(KINDS) - 1), st.sampled_from(POLICIES), st.integers(0, len(ASKING) - 1)
taking = asking.filter(lambda which: "ignored" not in str(ASKING[which].info().pod.metadata.labels))  # these may use what is reserved
serials = st.integers(0, 5)
events = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), names, kinds, policies, where),
        st.tuples(st.just("reserve"), names, kinds, policies, where),
        st.tuples(st.just("end"), names),
        st.tuples(st.just("linked"), serials, asking, names, where),
        st.tuples(st.just("stranger"), serials, where),
        st.tuples(st.just("gone"), serials),
        st.tuples(st.just("give"), serials, asking),
        st.tuples(st.just("look"), asking),
        st.tuples(st.just("node"), where, st.sampled_from(["4", "8", "16"])),
    ),
    max_size=14,
)


def reservation(name: str, kind: Kind, policy: str, node_name: str) -> Reservation:
    metadata = {"labels": kind.labels, "annotations": kind.annotations}
    return available(name, node_name, kind.amounts, kind.owner, allocatePolicy=policy, metadata=metadata, **kind.spec)


class History:
    """A world, and beside it what there is, for the model."""

    def __init__(self) -> None:
        self.world = ReservationWorld()
        self.nodes: dict[str, str] = {}
        self.reservations: dict[str, tuple[Kind, str, str]] = {}  # by name: with policy and node
        self.pods: dict[str, tuple[PodInfo, str, str]] = {}  # by uid: with node and the name of the reservation
        for name in NODES:
            self.play("node", name, "8")

    def play(self, what: str, *details: Any) -> None:
        world = self.world
        match what, details:
            case "node", (name, cpu):
                self.nodes[name] = cpu
                world.cache.set_node(node(name).cpu(cpu).memory("8Gi").pods(8).build())
            case "reserve", (name, kind, policy, node_name):
                if name in self.reservations:
                    node_name = self.reservations[name][2]
                self.reservations[name] = (KINDS[kind], policy, node_name)
                world.reservations.put(reservation(name, KINDS[kind], policy, node_name))
            case "end", (name,):
                self.reservations.pop(name, None)
                world.reservations.remove(f"uid-{name}")
                self.pods = {
                    uid: (info, at, "" if of == name else of) for uid, (info, at, of) in self.pods.items() if not self._is_held(uid, name)
                }
            case "linked", (serial, which, name, node_name):
                self.play("gone", serial)
                if name not in self.reservations or self.reservations[name][2] != node_name:
                    return  # a link to a reservation of another node counts for nothing
                uid = f"p{serial}"
                info = linked(ASKING[which].uid(uid), available(name, node_name, {}), node_name)
                world.cache.set_pod(info, node_name)
                self.pods[uid] = (info, node_name, name)
            case "stranger", (serial, node_name):
                self.play("gone", serial)
                uid = f"p{serial}"
                info = pod().uid(uid).cpu("1").memory("1Gi").on(node_name).info(counted_on_node=True)
                world.cache.set_pod(info, node_name)
                self.pods[uid] = (info, node_name, "")
            case "gone", (serial,):
                if self.pods.pop(f"p{serial}", None):
                    world.cache.remove_pod(f"p{serial}")
            case "give", (serial, which):
                self.play("gone", serial)
                info = ASKING[which].uid(f"p{serial}").info()
                try:
                    node_name, of = world.give(info)
                except LookupError:
                    return
                self.pods[info.uid] = (info, node_name, of)
            case "look", (which,):
                said(world, ASKING[which].info())

    def _is_held(self, uid: str, name: str) -> bool:
        """Take the owners of an ended reservation away: a name that comes again has the same uid here."""
        if self.pods[uid][2] != name:
            return False
        self.world.cache.remove_pod(uid)
        return True


def said(world: ReservationWorld, info: PodInfo) -> dict[str, Any] | str:
    """Return for each node why the pod is refused, or the plugin's raw score; or why it is refused as a whole."""
    world.signed(info)
    shapes = world.profile.shapes
    with shapes.view(info):
        shape = shapes.pre_filter(info)
        shapes.filter(shape, info)
        if shape.pre_filtered.refusal is not None:
            return shape.pre_filtered.refusal.message
        shapes.pre_score(shape, info)
        shapes.score(shape, info)
    evaluation = shape.evaluation
    place = next(s for s, (plugin, _) in enumerate(shape.scorers) if plugin.name == "Reservation")
    names = shape.pre_filtered.node_names
    answers: dict[str, Any] = {}
    for row in world.cache.table.live_rows().tolist():
        name = world.cache.nodes().info(row).name
        if names is not None and name not in names:
            answers[name] = "node(s) didn't satisfy plugin(s) [Reservation]"
        elif evaluation.is_feasible(row):
            answers[name] = evaluation.scores(row)[0][place] if evaluation.is_enabled(place) else 0
        else:
            f, code = evaluation.verdict(row)
            answers[name] = shape.filters[f].explain(shape.state, info, code).message
    return answers


class Model:
    """The cluster as plain lists."""

    def __init__(self, history: History) -> None:
        self.history = history

    def owners(self, name: str) -> list[PodInfo]:
        return [info for info, _, of in self.history.pods.values() if of == name]

    def allocatable(self, kind: Kind) -> dict[str, int]:
        units = {"Gi": GIB}
        found = {}
        for name, text in kind.amounts.items():
            found[name] = (
                int(text) * 1000 if name == "cpu" else int(text.removesuffix("Gi")) * units["Gi"] if text.endswith("Gi") else int(text)
            )
        return found

    def names(self, kind: Kind, policy: str) -> set[str]:
        options = "scheduling.koordinator.sh/reservation-restricted-options" in kind.annotations and policy == "Restricted"
        return {"cpu"} if options else set(kind.amounts)

    def allocated(self, name: str) -> dict[str, int]:
        kind, policy, _ = self.history.reservations[name]
        found: dict[str, int] = {}
        for owner in self.owners(name):
            for resource, amount in owner.resources.requests.items():
                if resource in self.names(kind, policy):
                    found[resource] = found.get(resource, 0) + amount
        return found

    def inner(self, kind: Kind) -> dict[str, int]:
        return {"cpu": 1000} if "node.koordinator.sh/reservation" in kind.annotations else {}

    def matches(self, name: str, info: PodInfo) -> bool:
        kind, _, _ = self.history.reservations[name]
        labels, annotations = info.pod.metadata.labels, info.pod.metadata.annotations
        if kind.spec.get("allocateOnce") and self.owners(name):
            return False
        if RESERVATION_IGNORED in labels:
            return True
        if labels.get("app") != kind.owner:
            return False
        affinity = annotations.get(RESERVATION_AFFINITY)
        if affinity == '{"name":"r1"}':
            return name == "r1"
        if kind.spec.get("unschedulable"):
            return False
        if affinity is not None and kind.spec.get("taints"):
            return False
        if affinity is not None and "gold" in affinity and kind.labels.get("tier") != "gold":
            return False
        return EXACT_MATCH not in annotations or self.allocatable(kind).get("cpu") == info.resources.requests.get("cpu")

    def node(self, node_name: str, info: PodInfo) -> str | int:
        """Return why the node refuses the pod, or the score of the reservation it would give."""
        history, requests = self.history, info.resources.requests
        there = [name for name, (_, _, at) in history.reservations.items() if at == node_name]
        matched = [name for name in there if self.matches(name, info)]
        pods = [other for other, at, _ in history.pods.values() if at == node_name]
        offered = {"cpu": int(history.nodes[node_name]) * 1000, "memory": 8 * GIB, "ephemeral-storage": 0}
        requested = {r: sum(o.resources.requests.get(r, 0) for o in pods) for r in offered}
        for name in there:
            whole = self.allocatable(history.reservations[name][0])
            for r in offered:
                requested[r] += whole.get(r, 0)
        taken_of = {
            name: {r: min(amount, self.allocatable(history.reservations[name][0]).get(r, 0)) for r, amount in self.allocated(name).items()}
            for name in there
        }
        for name in there:
            if name not in matched:
                for r, amount in taken_of[name].items():
                    requested[r] -= amount
        of_matched = {r: sum(taken_of[name].get(r, 0) for name in matched) for r in offered}
        count = len(pods) + len(there) - len(matched) + 1

        # NodeResourcesFit on the copy without the matched reservations
        view = {r: requested[r] - sum(self.allocatable(history.reservations[n][0]).get(r, 0) for n in matched) for r in offered}
        short = ["Too many pods"] if count > 8 else []
        short += [f"Insufficient {r}" for r in ("cpu", "memory") if r in requests and requests[r] > offered[r] - view[r]]
        if short:
            return ", ".join(short)

        required = RESERVATION_AFFINITY in info.pod.metadata.annotations
        if not matched or RESERVATION_IGNORED in info.pod.metadata.labels:
            return 0

        def fit(available: dict[str, int]) -> set[str]:
            free = {r: offered[r] - (requested[r] - available.get(r, 0) - of_matched[r]) for r in requests}
            return {r for r in requests if requests[r] > free[r]} | ({"pods"} if count > 8 else set())

        node_reasons: set[str] = set()
        own: set[str] = set()
        fitting = []
        for name in matched:
            kind, policy, _ = history.reservations[name]
            whole, taken, inner = self.allocatable(kind), self.allocated(name), self.inner(kind)
            if not required and not (set(requests) & self.names(kind, policy)):
                continue
            left = {r: max(0, amount - taken.get(r, 0) - inner.get(r, 0)) for r, amount in whole.items()}
            short_node = fit(left)
            short_own = set()
            if policy == "Restricted":
                if "pods" in whole and len(self.owners(name)) + 1 > whole["pods"]:
                    short_own.add("pods")
                for r in self.names(kind, policy) & set(requests):
                    if requests[r] > whole.get(r, 0) - inner.get(r, 0) - taken.get(r, 0):
                        short_own.add(r)
            if not short_node and not short_own:
                fitting.append(name)
            node_reasons |= short_node
            own |= short_own
        if not fitting:
            if required:
                by_name = "name" in info.pod.metadata.annotations[RESERVATION_AFFINITY]
                texts = sorted(f"Insufficient {r} by node" for r in node_reasons)
                texts += [self._own_reason(r, matched[0], requests, detailed=by_name) for r in sorted(own, key=lambda r: (r != "pods", r))]
                return ", ".join(texts) or "node(s) no reservation(s) to meet the requirements"
            node_reasons = node_reasons or fit({})
            return ", ".join(sorted(f"Insufficient {r} by node" for r in node_reasons)) or 0
        if required and len(matched) == 1:
            return self.score(matched[0], info)
        ordered = [
            (int(o), n) for n in fitting if (o := history.reservations[n][0].labels.get("scheduling.koordinator.sh/reservation-order"))
        ]
        if ordered:
            smallest = min(order for order, _ in ordered)
            return {self.score(n, info) for order, n in ordered if order == smallest}  # type: ignore[return-value]
        return max(self.score(name, info) for name in fitting)

    def _own_reason(self, resource: str, name: str, requests: Any, *, detailed: bool) -> str:
        text = "Reservation(s) Too many pods" if resource == "pods" else f"Reservation(s) Insufficient {resource}"
        if not detailed:
            return text
        kind = self.history.reservations[name][0]
        capacity = self.allocatable(kind).get(resource, 0) - self.inner(kind).get(resource, 0)
        if resource == "pods":
            return f"{text}, requested: 1, used: {len(self.owners(name))}, capacity: {capacity}"
        return f"{text}, requested: {requests[resource]}, used: {self.allocated(name).get(resource, 0)}, capacity: {capacity}"

    def score(self, name: str, info: PodInfo) -> int:
        whole, taken = self.allocatable(self.history.reservations[name][0]), self.allocated(name)
        total = 0
        for r, amount in whole.items():
            used = info.resources.requests.get(r, 0) + taken.get(r, 0)
            total += 100 * used // amount if used <= amount else 0
        return total // len(whole)

    def answers(self, info: PodInfo) -> dict[str, Any] | str:
        history = self.history
        required = RESERVATION_AFFINITY in info.pod.metadata.annotations
        with_match = {at for name, (_, _, at) in history.reservations.items() if self.matches(name, info)}
        if required and not with_match:
            return "node(s) no reservations match reservation affinity"
        found: dict[str, Any] = {}
        for name in NODES:
            if required and name not in with_match:
                found[name] = "node(s) didn't satisfy plugin(s) [Reservation]"
            else:
                found[name] = self.node(name, info)
        self._prefer(found, info)
        return found

    def _prefer(self, found: dict[str, Any], info: PodInfo) -> None:
        """Let the feasible node with the smallest order of all that match there come first."""
        if RESERVATION_IGNORED in info.pod.metadata.labels:
            return
        orders = {
            name: min(
                (
                    int(kind.labels["scheduling.koordinator.sh/reservation-order"])
                    for other, (kind, _, at) in self.history.reservations.items()
                    if at == name and self.matches(other, info) and "scheduling.koordinator.sh/reservation-order" in kind.labels
                ),
                default=0,
            )
            for name in NODES
            if not isinstance(found[name], str)
        }
        ordered = [name for name, order in orders.items() if order]
        if ordered:
            found[min(ordered, key=lambda name: orders[name])] = 1000


def agree(ours: Any, model: Any) -> bool:
    if isinstance(ours, str) or isinstance(model, str):
        return bool(ours == model)
    return all(ours[name] in model[name] if isinstance(model[name], set) else ours[name] == model[name] for name in NODES)


@settings(max_examples=100)
@given(events)
def test_columns_of_owners_and_strangers_are_those_of_copied_nodes(history: list[tuple[Any, ...]]) -> None:
    played = History()
    for event in history:
        played.play(*event)
        for builder in ASKING:
            ours, model = said(played.world, builder.info()), Model(played).answers(builder.info())
            assert agree(ours, model), (event, builder.info().pod, ours, model)
            if NAMED in builder.info().pod.metadata.annotations.values():
                fitting = [] if isinstance(ours, str) else [name for name in NODES if not isinstance(ours[name], str)]
                assert found_by_name(played.world, builder.info()) == fitting, (event, ours)


def found_by_name(world: ReservationWorld, info: PodInfo) -> list[str]:
    """Return the node that is found for a pod which names its reservation without hiding what is reserved."""
    found = world.profile.shapes.named_row(world.signed(info))
    return [] if found is None else [world.cache.nodes().info(found[0]).name]


@settings(max_examples=100)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("reserve"), names, kinds, policies),
            st.tuples(st.just("give"), st.integers(0, 30), taking),
            st.tuples(st.just("give"), st.integers(0, 30), taking),
            st.tuples(st.just("gone"), st.integers(0, 30)),
            st.tuples(st.just("end"), names),
        ),
        max_size=30,
    )
)
def test_nothing_is_given_twice(history: list[tuple[Any, ...]]) -> None:
    """What pods use and what reservations have left is never more than a node has; see also the policies."""
    world, pods, kept = ReservationWorld(), set[str](), dict[str, Reservation]()
    for name in NODES:
        world.cache.set_node(node(name).cpu("8").memory("8Gi").pods(8).build())
    for what, *details in history:
        match what, details:
            case "reserve", (name, kind, policy) if name not in kept:
                pending = replace(reservation(name, KINDS[kind], policy, ""), status=ReservationStatus())
                found = world.find(PodInfo.of_reservation(pending))
                if isinstance(found, str):
                    kept[name] = reservation(name, KINDS[kind], policy, found)
                    world.reservations.put(kept[name])
            case "give", (serial, which) if f"p{serial}" not in pods:
                info = ASKING[which].uid(f"p{serial}").info()
                try:
                    world.give(info)
                except LookupError:
                    continue
                pods.add(info.uid)
            case "gone", (serial,) if f"p{serial}" in pods:
                pods.discard(f"p{serial}")
                world.cache.remove_pod(f"p{serial}")
            case "end", (name,) if kept.pop(name, None):
                world.reservations.remove(f"uid-{name}")
        check(world)
    for uid in pods:
        world.cache.remove_pod(uid)
    for name in list(kept):
        assert not world.reservations.by_uid[f"uid-{name}"].allocated
        world.reservations.remove(f"uid-{name}")
    assert not world.cache.pods
    assert not len(world.cache.credits)


def check(world: ReservationWorld) -> None:
    for name in NODES:
        info = world.cache.node(name)
        assert info is not None
        whole = {"cpu": 8000, "memory": 8 * GIB}
        for resource, offered in whole.items():
            used = sum(p.resources.requests.get(resource, 0) for p in info.counted.values() if p.reservation is None)
            left = sum(max(0, r.allocatable.get(resource, 0) - r.allocated.get(resource, 0)) for r in world.reservations.on_node(name))
            assert used + left <= offered, (name, resource, used, left)
            assert info.requested(resource) == used + left
        for reservation_info in world.reservations.on_node(name):
            if reservation_info.allocate_once:
                assert len(reservation_info.owners) <= 1
            if reservation_info.policy == "Restricted":
                for resource in reservation_info.resource_names - {"pods"}:
                    taken = reservation_info.allocated.get(resource, 0)
                    inner = reservation_info.reserved.get(resource, 0)
                    assert taken <= reservation_info.allocatable[resource] - inner or not taken
