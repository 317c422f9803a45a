"""Random lives of quotas: a small tree, pods of its leaves, and quotas that change."""

from __future__ import annotations

import json
from random import Random

from support.differential.choosing import Json
from support.differential.histories.lives import Change, History, Life, chart_profile, named, node, pod

KEY = "quota.scheduling.koordinator.sh/"
GROUP = "scheduling.sigs.k8s.io/v1alpha1"
PODS_CPU = ("500m", "1", "1", "2", "2", "3")
MEMORY = ("1Gi", "2Gi", "4Gi")


def history(random: Random, lives: int, steps: int) -> History:
    """Make lives whose quotas do not press each other: the cluster is larger than all of them together."""
    return History(chart_profile(), [LifeOfQuotas(random, f"l{i}").made(steps) for i in range(lives)])


class LifeOfQuotas:
    """One life that is being made."""

    def __init__(self, random: Random, name: str) -> None:
        self._random = random
        self._name = name
        self._quotas: list[Json] = []
        self._pods: list[Json] = []

    def made(self, steps: int) -> Life:
        nodes = [node(self._name, "a", "12", "24Gi")]
        first = [self._quota("parent", self._amounts((6, 8, 10)), self._amounts((4, 6)), is_parent=True)]
        first += [self._quota(f"c{i}", self._amounts((3, 4, 6, 8)), self._amounts((0, 1, 2)), parent="parent") for i in range(2)]
        first += [self._quota("top", self._amounts((2, 3, 5)), self._amounts((0, 1, 2)))]
        return Life(self._name, nodes, [first, *([self._change()] for _ in range(steps - 1))])

    def _amounts(self, cpus: tuple[int, ...]) -> Json:
        cpu = self._random.choice(cpus)
        found = {"cpu": str(cpu), "memory": f"{2 * cpu}Gi"}
        if self._random.random() < 0.15:
            del found["memory"]
        return found

    def _quota(self, name: str, most: Json, least: Json, parent: str = "", *, is_parent: bool = False) -> Change:
        labels = {KEY + "is-parent": "true"} if is_parent else {}
        if parent:
            labels[KEY + "parent"] = f"{self._name}-{parent}"
        if not is_parent and self._random.random() < 0.25:
            labels[KEY + "allow-lent-resource"] = "false"
        annotations = {}
        if self._random.random() < 0.2:
            annotations[KEY + "shared-weight"] = json.dumps(self._amounts((1, 2, 5)))
        metadata = {"name": f"{self._name}-{name}", "namespace": "default", "labels": labels, "annotations": annotations}
        body = {"apiVersion": GROUP, "kind": "ElasticQuota", "metadata": metadata, "spec": {"max": most, "min": least}}
        self._quotas.append(body)
        return Change("create", body)

    def _change(self) -> Change:
        random = self._random
        kind = random.choices(["pod", "pod gone", "pod done", "quota"], [60, 20, 6, 14])[0]
        if kind in {"pod gone", "pod done"} and self._pods:
            one = named(self._pods.pop(random.randrange(len(self._pods))))
            return Change("delete", one) if kind == "pod gone" else Change("status", {**one, "status": {"phase": "Succeeded"}})
        if kind == "quota":
            one = random.choice(self._quotas)
            field = random.choice(["max", "min"])
            return Change("patch", {**named(one), "spec": {field: {"cpu": str(random.choice([1, 2, 4, 6, 8]))}}})
        requests: Json = {"cpu": random.choice(PODS_CPU)}
        if random.random() < 0.6:
            requests["memory"] = random.choice(MEMORY)
        quota = random.choice(["c0", "c0", "c1", "c1", "top", "parent" if random.random() < 0.3 else "c0"])
        labels = {KEY + "name": f"{self._name}-{quota}"}
        if random.random() < 0.2:
            labels[KEY + "preemptible"] = "false"
        body = pod(self._name, f"p{len(self._pods)}-{random.randrange(1000)}", requests, labels=labels)
        self._pods.append(body)
        return Change("create", body)
