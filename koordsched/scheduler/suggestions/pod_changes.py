"""Changes of the pod itself, which its gang's pending members get as well: what it asks for, where it may go, what it tolerates.

Each edits a pod's body, as JSON has it, in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from koordsched.api.koordinator.device_requests import FPGA_SHARE, GPU_CORE, GPU_MEMORY_RATIO, KOORDINATOR_GPU, RDMA_SHARE
from koordsched.api.koordinator.pods import amount_text
from koordsched.api.koordinator.qos import QOS_CLASS
from koordsched.api.quantity import QuantityError, format_of, milli_value, value

Json = dict[str, Any]
Taints = tuple[tuple[str, str, str], ...]
"""The key, value and effect of each taint of a node."""

MEBI = 1 << 20
WHOLE_CPUS = frozenset({"LSR", "LSE"})
PERCENTAGES = frozenset({KOORDINATOR_GPU, GPU_CORE, GPU_MEMORY_RATIO, RDMA_SHARE, FPGA_SHARE})
"""Resources of which 100 is a device: a part of one, or several whole ones, can be asked for."""
WHOLE_DEVICE = 100
MOST_RESERVATIONS = 8
"""Reservations of which it is tried to have the pod own them."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PLACEMENT_ANNOTATIONS = (
    "scheduling.koordinator.sh/reservation-affinity",
    "scheduling.koordinator.sh/resource-spec",
    "scheduling.koordinator.sh/numa-topology-spec",
    "scheduling.koordinator.sh/device-allocate-hint",
    "scheduling.koordinator.sh/device-joint-allocate",
    "scheduling.koordinator.sh/gpu-partition-spec",
    "internal.scheduling.koordinator.sh/scheduling-hint",
    "scheduling.koordinator.sh/scheduling-hint",
    "gang.scheduling.koordinator.sh/network-topology-spec",
)
"""Annotations that keep a pod from nodes that have the amounts that it asks for."""


def pod_changes(body: Json, taints: Iterable[Taints], profiles: Sequence[str], placed: int) -> list[PodChange]:
    """Return all changes of the pod that are worth a trial. taints: of each node; placed: how many pods there are on nodes."""
    return [*_requests(body), *_tolerations(body, taints), *_ungate(body, profiles), *_dropped(body), *_spreads(body, placed)]


class RequestChange(msgspec.Struct, frozen=True):
    """Less of a resource (or of two that go together), in all of the pod. amounts: descending, without the present one."""

    resources: tuple[str, ...]
    present: int
    amounts: Sequence[int]
    written: Any  # the format of the request
    kind: str = "request"

    @property
    def levels(self) -> int:
        return len(self.amounts)

    def edit(self, body: Json, level: int) -> None:
        for resource in self.resources:
            limit_request(body["spec"], resource, self.amounts[level - 1])

    def text(self, level: int) -> str:
        name, least = " and ".join(self.resources), self.amounts[level - 1]
        return f"request {self._shown(least)} of {name} instead of {self._shown(self.present)}"

    def fields(self, level: int) -> Json:
        return {"resources": self.resources, "from": self._shown(self.present), "to": self._shown(self.amounts[level - 1])}

    def _shown(self, amount: int) -> str:
        return amount_text(self.resources[0], amount, self.written)


class PodEdit(msgspec.Struct, frozen=True):
    """Something of the pod that is there or not. change: makes it in a body."""

    kind: str
    what: str
    names: Json
    change: Callable[[Json], None]
    levels: int = 1

    def edit(self, body: Json, _level: int) -> None:
        self.change(body)

    def text(self, _level: int) -> str:
        return self.what

    def fields(self, _level: int) -> Json:
        return self.names


class SpreadChange(msgspec.Struct, frozen=True):
    """A larger maxSkew of one topology spread constraint, or nothing where another change has dropped that constraint."""

    constraint: Json
    topology_key: str
    present: int
    levels: int
    kind: str = "topologySpread"

    def edit(self, body: Json, level: int) -> None:
        for constraint in body["spec"]["topologySpreadConstraints"]:
            if constraint == self.constraint:
                constraint["maxSkew"] = self.present + level
                break

    def text(self, level: int) -> str:
        return f"raise maxSkew of the topology spread constraint on {self.topology_key} from {self.present} to {self.present + level}"

    def fields(self, level: int) -> Json:
        return {"topologyKey": self.topology_key, "from": self.present, "to": self.present + level}


PodChange = RequestChange | PodEdit | SpreadChange


def ownerships(body: Json, reservations: Iterable[Json]) -> list[PodEdit]:
    """Return a change for each Reservation that has a node and that the pod would be an owner of if it had its owners' labels."""
    found, labels = list[PodEdit](), body["metadata"].get("labels") or {}
    for reservation in reservations:
        name = reservation["metadata"]["name"]
        for owner in (reservation.get("spec") or {}).get("owners") or ():
            wanted = (owner.get("labelSelector") or {}).get("matchLabels") or {}
            if set(owner) != {"labelSelector"} or set(owner["labelSelector"]) != {"matchLabels"} or wanted.items() <= labels.items():
                continue
            shown = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
            names = {"reservation": name, "labels": wanted}
            found.append(
                PodEdit("reservation", f"label the pod with {shown}: it then owns reservation {name}", names, partial(_label, wanted))
            )
    return found[:MOST_RESERVATIONS]


def _label(labels: Json, body: Json) -> None:
    body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), **labels}


# Requests


def amount_of(resource: str, quantity: Any) -> int:
    """Return an amount in the units of the scheduler: milli-CPUs, else whole units; 0 for what is no quantity."""
    try:
        return milli_value(quantity) if resource == "cpu" else value(quantity)
    except (QuantityError, TypeError):
        return 0


def containers(spec: Json) -> list[Json]:
    return [each for each in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())) if isinstance(each, dict)]


def requests_of(container: Json) -> Json:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def request_in_all(spec: Json, resource: str) -> int:
    """Return what containers ask for together, or an init container alone if that is more."""
    own = [amount_of(resource, requests_of(each).get(resource, 0)) for each in spec.get("containers") or ()]
    first = [amount_of(resource, requests_of(each).get(resource, 0)) for each in spec.get("initContainers") or ()]
    return max([sum(own), *first])


def limit_request(spec: Json, resource: str, most: int) -> None:
    """Have the pod ask for no more than this in all: the last containers give way first. Limits that are equal to requests stay so."""
    left = most
    for container in spec.get("containers") or ():
        left -= _limit(container, resource, left)
    for container in spec.get("initContainers") or ():
        _limit(container, resource, most)


def _limit(container: Json, resource: str, most: int) -> int:
    """Return what the container asks for then."""
    requested = requests_of(container).get(resource)
    if requested is None:
        return 0
    amount = amount_of(resource, requested)
    if amount <= most:
        return amount
    resources = container["resources"]
    text = amount_text(resource, most, format_of(requested))
    limits = resources.get("limits") or {}
    if resource in limits and amount_of(resource, limits[resource]) == amount:
        resources["limits"] = {**limits, resource: text}
    resources["requests"] = {**(resources.get("requests") or {}), resource: text}
    return most


def _requests(body: Json) -> Iterator[RequestChange]:
    spec = body["spec"]
    written: dict[str, Any] = {}
    for container in containers(spec):
        for resource, quantity in requests_of(container).items():
            written.setdefault(resource, quantity)
    qos = (body["metadata"].get("labels") or {}).get(QOS_CLASS, "")
    pairs = {GPU_CORE: (GPU_CORE, GPU_MEMORY_RATIO)} if GPU_CORE in written and GPU_MEMORY_RATIO in written else {}
    for resource, quantity in written.items():
        if pairs and resource == GPU_MEMORY_RATIO and request_in_all(spec, GPU_CORE) == request_in_all(spec, resource):
            continue  # changes with the cores
        present = request_in_all(spec, resource)
        if present > 0:
            amounts = smaller_amounts(resource, present, whole_cpus=qos in WHOLE_CPUS)
            together = pairs.get(resource, (resource,))
            if len(together) > 1 and request_in_all(spec, GPU_MEMORY_RATIO) != present:
                together = (resource,)
            yield RequestChange(together, present, amounts, format_of(quantity))


def smaller_amounts(resource: str, present: int, *, whole_cpus: bool) -> Sequence[int]:
    """Return the amounts below the present one that can be asked for, descending to 0: bytes by the MiB, devices by the percent."""
    if resource in PERCENTAGES:
        devices = range((present - 1) // WHOLE_DEVICE * WHOLE_DEVICE, WHOLE_DEVICE - 1, -WHOLE_DEVICE)
        return [*devices, *range(min(present, WHOLE_DEVICE) - 1, -1, -1)]
    step = 1000 if resource == "cpu" and whole_cpus else MEBI if present >= MEBI else 1
    return range((present - 1) // step * step, -1, -step)


# Where it may go


def taints_of(node: Json) -> Taints:
    """Return the taints of a node's body."""
    listed = (node.get("spec") or {}).get("taints") or ()
    return tuple((str(taint.get("key", "")), str(taint.get("value") or ""), str(taint.get("effect", ""))) for taint in listed)


def _tolerations(body: Json, taints: Iterable[Taints]) -> Iterator[PodEdit]:
    """Yield a change for each taint, or set of taints of a node, that the pod does not tolerate; single taints first."""
    tolerations = body["spec"].get("tolerations") or []
    sets: dict[Taints, None] = {}
    for of_node in dict.fromkeys(taints):
        hard = tuple(sorted({each for each in of_node if each[2] in {"NoSchedule", "NoExecute"} and not _tolerates(tolerations, each)}))
        if hard:
            sets[hard] = None
    for taints_ in sorted(sets, key=lambda each: (len(each), each)):
        shown = ", ".join(f"{key}={value}:{effect}" if value else f"{key}:{effect}" for key, value, effect in taints_)
        added = [
            {"key": key, "operator": "Equal", "value": value, "effect": effect}
            if value
            else {"key": key, "operator": "Exists", "effect": effect}
            for key, value, effect in taints_
        ]

        def edit(body: Json, added: list[Json] = added) -> None:
            body["spec"]["tolerations"] = [*(body["spec"].get("tolerations") or []), *added]

        yield PodEdit("toleration", f"tolerate the taint {shown}", {"tolerations": added}, edit)


def _tolerates(tolerations: Sequence[Json], taint: tuple[str, str, str]) -> bool:
    key, value_, effect = taint
    for each in tolerations:
        same = each.get("operator") == "Exists" or (each.get("value") or "") == value_
        if (each.get("key") or key) == key and (each.get("effect") or effect) == effect and same:
            return True
    return False


def _ungate(body: Json, profiles: Sequence[str]) -> Iterator[PodEdit]:
    gates = body["spec"].get("schedulingGates")
    if gates:
        names = [gate.get("name", "") for gate in gates]
        what = f"remove the scheduling gates {', '.join(names)}"
        yield PodEdit("schedulingGates", what, {"schedulingGates": names}, partial(_remove, ("spec", "schedulingGates")))
    scheduler = body["spec"].get("schedulerName")
    if scheduler not in profiles:

        def name(body: Json) -> None:
            body["spec"]["schedulerName"] = profiles[0]

        what = f"set schedulerName to {profiles[0]} instead of {scheduler}"
        yield PodEdit("schedulerName", what, {"schedulerName": profiles[0]}, name)


def _dropped(body: Json) -> Iterator[PodEdit]:
    """Yield what can be left out of the pod."""
    spec, affinity = body["spec"], body["spec"].get("affinity") or {}
    for key, wanted in (spec.get("nodeSelector") or {}).items():
        edit = partial(_remove, ("spec", "nodeSelector", key))
        yield PodEdit("nodeSelector", f"drop {key}={wanted} from nodeSelector", {"key": key}, edit)
    terms = ((affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for t, term in enumerate(terms):
        for section in ("matchExpressions", "matchFields"):
            for expression in term.get(section) or ():
                values = ",".join(map(str, expression.get("values") or ()))
                shown = f"{expression.get('key')} {expression.get('operator')} {values}".rstrip()
                edit = partial(_drop_expression, t, section, expression)
                yield PodEdit("nodeAffinity", f"drop the required node affinity {shown}", {"expression": expression}, edit)
    for kind in ("podAffinity", "podAntiAffinity"):
        for i, term in enumerate((affinity.get(kind) or {}).get(REQUIRED) or ()):
            key = term.get("topologyKey")
            edit = partial(_drop_item, ("spec", "affinity", kind, REQUIRED), term)
            yield PodEdit(kind, f"drop the required {kind} term on {key}", {"topologyKey": key, "index": i}, edit)
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule":
            key = constraint.get("topologyKey")
            edit = partial(_drop_item, ("spec", "topologySpreadConstraints"), constraint)
            names = {"topologyKey": key, "index": i}
            yield PodEdit("topologySpreadConstraint", f"drop the topology spread constraint on {key}", names, edit)
    ports = [port for each in containers(spec) for port in each.get("ports") or () if port.get("hostPort")]
    for number, protocol in sorted({(port["hostPort"], port.get("protocol") or "TCP") for port in ports}):
        names = {"hostPort": number, "protocol": protocol}
        yield PodEdit("hostPort", f"do without the host port {number}/{protocol}", names, partial(_drop_port, number, protocol))
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            name, claim = volume.get("name"), (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
            what = f"do without the volume {name}" + (f" (claim {claim})" if claim else "")
            yield PodEdit("volume", what, {"volume": name, "claim": claim}, partial(_drop_volume, name))
    for annotation in PLACEMENT_ANNOTATIONS:
        if annotation in (body["metadata"].get("annotations") or {}):
            edit = partial(_remove, ("metadata", "annotations", annotation))
            yield PodEdit("annotation", f"drop the annotation {annotation}", {"annotation": annotation}, edit)


def _remove(path: Sequence[str], body: Json) -> None:
    parent = body
    for step in path[:-1]:
        parent = parent[step]
    parent.pop(path[-1])


def _drop_item(path: Sequence[str], item: Json, body: Json) -> None:
    """Drop an item of a list. It is found by what it is, not by its index, which another change of the same trial may have moved."""
    items: Any = body
    for step in path:
        items = items[step]
    if item in items:  # it is not where another change has altered it
        items.remove(item)


def _drop_expression(t: int, section: str, expression: Json, body: Json) -> None:
    """Drop one expression of a term; a term without any would match no node, so that the whole requirement goes with its last one."""
    affinity = body["spec"]["affinity"]["nodeAffinity"]
    if REQUIRED not in affinity:  # it went with the last expression of another term
        return
    term = affinity[REQUIRED]["nodeSelectorTerms"][t]
    term[section].remove(expression)
    if not term.get("matchExpressions") and not term.get("matchFields"):
        affinity.pop(REQUIRED)


def _drop_port(number: int, protocol: str, body: Json) -> None:
    for container in containers(body["spec"]):
        for port in container.get("ports") or ():
            if port.get("hostPort") == number and (port.get("protocol") or "TCP") == protocol:
                port.pop("hostPort")


def _drop_volume(name: str, body: Json) -> None:
    body["spec"]["volumes"] = [volume for volume in body["spec"]["volumes"] if volume.get("name") != name]
    for container in containers(body["spec"]):
        if container.get("volumeMounts"):
            container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount.get("name") != name]


def _spreads(body: Json, placed: int) -> Iterator[SpreadChange]:
    for constraint in body["spec"].get("topologySpreadConstraints") or ():
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule":
            yield SpreadChange(constraint, str(constraint.get("topologyKey")), int(constraint.get("maxSkew") or 1), placed + 1)
