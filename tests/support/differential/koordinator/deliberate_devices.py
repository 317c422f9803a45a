"""What ours does otherwise than the reference's DeviceShare because the reference is wrong or gives up too early (docs/differences.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koordsched.api.koordinator.device_requests import GPU, InvalidDeviceRequest, device_requests, gpu_demand
from koordsched.api.quantity import QuantityFormat, value
from support.differential.choosing import Json
from support.differential.koordinator.allocations import devices_in
from support.differential.koordinator.circumstances import Circumstances, Rule
from support.differential.koordinator.device_pods import ALLOCATED, JOINT, SCHEDULING_HINT

DEFAULT_WEIGHTS = {f"koordinator.sh/{name}": 1 for name in ("gpu-memory-ratio", "gpu-memory", "rdma", "fpga")}


def one_node_ends_the_cycle(case: Circumstances) -> bool:
    """Say whether the reference's Filter returned an Error of one node for all of them; ours refuses that node."""
    return case.theirs.message.startswith('running "DeviceShare" filter plugin: ')


def swapped_score(case: Circumstances) -> bool:
    """Say whether a share of a card went to another card because the reference's tree swaps total and free: ours has the better score."""
    if not all(line.startswith("device-allocated") for line in case.differences):
        return False
    theirs, ours = devices_in(case.got).get("gpu", ()), devices_in(case.given).get("gpu", ())
    if len(theirs) != 1 or len(ours) != 1 or theirs[0]["minor"] == ours[0]["minor"]:
        return False
    cards = {
        each["minor"]: each
        for body in case.objects
        if body["kind"] == "Device" and body["metadata"]["name"] == case.theirs.node
        for each in body["spec"]["devices"]
        if each["type"] == GPU
    }
    if not {theirs[0]["minor"], ours[0]["minor"]} <= cards.keys() or any("topology" not in each for each in cards.values()):
        return False
    scores = [score_of(case, cards[entry["minor"]]) for entry in (*ours, *theirs)]
    return scores[0] > scores[1] or (scores[0] == scores[1] and ours[0]["minor"] < theirs[0]["minor"])


def other_primaries(case: Circumstances) -> bool:
    """Say whether the reference gave up a node because of the first primary devices that it looked at; ours tries others."""
    joint = case.pod["metadata"].get("annotations", {}).get(JOINT, "")
    return "SamePCIe" in joint and (bool(case.theirs.message) or case.theirs.scores.keys() < case.ours.scores.keys())


def missing_name(case: Circumstances) -> bool:
    """Say whether it is about nodes with a card that lacks a resource the pod asks for: the reference does not compare such a resource."""
    asked = share(case.pod)
    lacking = {
        body["metadata"]["name"]
        for body in case.objects
        if body["kind"] == "Device"
        for each in body["spec"]["devices"]
        if each["type"] == GPU and each["health"] and not asked.keys() <= each["resources"].keys()
    }
    theirs, ours = case.feasible()
    if theirs == ours:  # both refuse the pod for other reasons, or give it other cards
        return bool(lacking) if not theirs else not lacking.isdisjoint({case.theirs.node, *case.ours.best})
    return ours < theirs and theirs - ours <= lacking


def annotation_without_devices(case: Circumstances) -> bool:
    """Say whether the pod came with an annotation of devices to a node that has none: the reference leaves it, ours takes it away."""
    before = case.pod["metadata"].get("annotations", {}).get(ALLOCATED)
    return before is not None and case.got.get(ALLOCATED) == before and ALLOCATED not in case.given and len(case.differences) == 1


def node_without_device(case: Circumstances) -> bool:
    """Say whether ours finds nodes without a Device besides: the reference refuses such a node once a pod with an annotation was there."""
    described = {body["metadata"]["name"] for body in case.objects if body["kind"] == "Device"}
    theirs, ours = case.feasible()
    return bool(described) and theirs < ours and not (ours - theirs) & described


def designation_forgotten(case: Circumstances) -> bool:
    """Say whether making room went otherwise: the cycle state that the reference copies for its dry run lacks designated devices."""
    annotations = case.pod["metadata"].get("annotations", {})
    designates = ALLOCATED in annotations and "DeviceShare" in annotations.get(SCHEDULING_HINT, "")
    return designates and not case.theirs.node and not any(case.feasible())


RULES: tuple[Rule, ...] = (
    one_node_ends_the_cycle,
    swapped_score,
    other_primaries,
    missing_name,
    annotation_without_devices,
    node_without_device,
    designation_forgotten,
)


def score_of(case: Circumstances, card: Json) -> int:
    """Score a card for the share that the pod asks for (deviceshare.md §7)."""
    strategy = arguments(case.config).get("scoringStrategy", {})
    weights = {each["name"]: each["weight"] for each in strategy.get("resources", ())} or DEFAULT_WEIGHTS
    used = sums(held["resources"] for held in on_card(case.objects, case.theirs.node, card["minor"]))
    asked = share(case.pod)
    found = weight_of_all = 0
    for name, weight in weights.items():
        if total := value(card["resources"].get(name, "0")):
            requested = min(used.get(name, 0), total) + asked.get(name, 0)
            least = (total - requested) * 100 // total if requested <= total else 0
            found += weight * (min(requested, total) * 100 // total if strategy.get("type") == "MostAllocated" else least)
            weight_of_all += weight
    return found // weight_of_all if weight_of_all else 0


def share(pod: Json) -> Mapping[str, int]:
    """Return what the pod asks of each card."""
    asked: dict[str, int] = {}
    for each in pod["spec"]["containers"]:
        for name, amount in each.get("resources", {}).get("requests", {}).items():
            own = name.replace("kubernetes.io/", "koordinator.sh/")  # as Koordinator reads older names
            asked[own] = asked.get(own, 0) + value(amount)
    try:
        demand = device_requests(asked, lambda _: QuantityFormat.DECIMAL_SI)
    except InvalidDeviceRequest:
        return {}
    return gpu_demand(demand[GPU]).amounts if GPU in demand else {}


def on_card(objects: Iterable[Json], node: str, minor: int) -> Iterable[Json]:
    for body in objects:
        if body["kind"] == "Pod" and body["spec"].get("nodeName") == node and body["status"].get("phase") not in ("Succeeded", "Failed"):
            yield from (entry for entry in devices_in(body["metadata"].get("annotations", {})).get("gpu", ()) if entry["minor"] == minor)


def sums(lists: Iterable[Mapping[str, str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in lists:
        for name, amount in each.items():
            found[name] = found.get(name, 0) + value(amount)
    return found


def arguments(config: Json) -> Json:
    entries = config["profiles"][0]["pluginConfig"]
    found: Json = next((entry["args"] for entry in entries if entry["name"] == "DeviceShare"), {})
    return found
