"""Random lives of gangs in a network of spines, blocks and racks: planned into one domain, refused, and planned anew when others end.

One ClusterNetworkTopology is for the whole cluster: each life has spines of its own. Members of a gang are equal (coscheduling.md D4) and
all needed (D11). Pods that are in no gang say on which node they want to be: which of equal nodes they get is chance.
"""

from __future__ import annotations

import json
from random import Random

from support.differential.choosing import Json
from support.differential.histories.lives import Change, History, Life, chart_profile, named, node, pod

GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
GROUP = "scheduling.sigs.k8s.io/v1alpha1"
LAYERS = ("Spine", "Block", "Rack")
LEAF = "NodeTopologyLayer"
CPUS = ("2", "4", "4", "8")
FLAGS = ("--enable-network-topology-manager",)
STRATEGIES = ("MustGather", "MustGather", "PreferGather")


def history(random: Random, lives: int, steps: int) -> History:
    """Make lives with two or three layers above the nodes, the same for all of them."""
    layers = LAYERS[: random.choice([2, 3, 3])]
    above = ["", *layers]
    spec = [_layer(name, above[i], f"network/{name.lower()}") for i, name in enumerate(layers)] + [_layer(LEAF, layers[-1], "")]
    network = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": spec},
    }
    made = [LifeInNetwork(random, f"l{i}", layers).made(steps) for i in range(lives)]
    return History(chart_profile(), [Life("default", [network], []), *made], FLAGS)


def _layer(name: str, parent: str, label: str) -> Json:
    found: Json = {"topologyLayer": name}
    if parent:
        found["parentTopologyLayer"] = parent
    return found | ({"labelKey": [label]} if label else {})


class LifeInNetwork:
    """One life that is being made."""

    def __init__(self, random: Random, name: str, layers: tuple[str, ...]) -> None:
        self._random = random
        self._name = name
        self._layers = layers
        self._nodes: list[Json] = []
        self._there: list[list[Json]] = []
        self._made = 0

    def made(self, steps: int) -> Life:
        self._grow((), len(self._layers))
        return Life(self._name, self._nodes, [self._change() for _ in range(steps)])

    def _grow(self, path: tuple[str, ...], levels: int) -> None:
        """Make the domains and nodes below a domain. A node may lack the label of the layer above it, or of one higher up."""
        random = self._random
        if levels:
            for i in range(random.choice([1, 2, 2, 3])):
                self._grow((*path, "-".join([*(path[-1:] or [self._name]), str(i)])), levels - 1)
            return
        for _ in range(random.choice([1, 2, 2, 3])):
            labels = {f"network/{layer.lower()}": name for layer, name in zip(self._layers, path, strict=True)}
            if random.random() < 0.06:
                del labels[random.choice(list(labels))]
            self._nodes.append(node(self._name, f"n{len(self._nodes)}", random.choice(CPUS), "64Gi", **labels))

    def _change(self) -> list[Change]:
        kind = self._random.choices(["gang", "pod", "gone"], [55, 20, 25])[0]
        if kind == "gone" and self._there:
            gone = self._there.pop(self._random.randrange(len(self._there)))
            return [Change("delete", named(body)) for body in gone]
        return self._pod() if kind == "pod" else self._gang()

    def _pod(self) -> list[Change]:
        where = self._random.choice(self._nodes)["metadata"]["name"]
        body = pod(self._name, f"p{self._next()}", {"cpu": self._random.choice(["1", "2", "4"])})
        body["spec"]["nodeSelector"]["kubernetes.io/hostname"] = where
        return self._created([body])

    def _gang(self) -> list[Change]:
        random = self._random
        name, size = f"{self._name}-g{self._next()}", random.choice([1, 2, 3, 4, 5, 6, 8, 12])
        metadata = {"name": name, "namespace": "default", "annotations": {SPEC: json.dumps({"gatherStrategy": self._rules()})}}
        group = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": size}}
        cpu, labels = random.choice(["500m", "1", "1", "2", "3"]), {GROUP_LABEL: name}
        members = [pod(self._name, f"{name.partition('-')[2]}-m{i}", {"cpu": cpu}, labels=labels) for i in range(size)]
        return self._created([group, *members])

    def _rules(self) -> list[Json]:
        """Return for some layers how the gang is to be gathered there; some name a layer that does not exist."""
        random = self._random
        named_layers = random.sample([*self._layers, LEAF], random.choice([1, 1, 2, 3])) if random.random() < 0.95 else ["Nowhere"]
        rules: list[Json] = []
        for layer in named_layers:
            rule: Json = {"layer": layer, "strategy": random.choice(STRATEGIES)}
            if random.random() < 0.25:
                rule["podCountMultiple"] = random.choice([1, 2, 2, 3, 4])
            rules.append(rule)
        return rules

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _created(self, bodies: list[Json]) -> list[Change]:
        self._there.append(bodies)
        return [Change("create", body) for body in bodies]
