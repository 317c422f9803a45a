"""Random lives of gangs: by PodGroup, by annotations and by the lightweight labels; alone and in groups, in and out of room and quota."""

from __future__ import annotations

import json
from random import Random

from support.differential.choosing import Json
from support.differential.histories.lives import Change, History, Life, chart_profile, named, node, pod

GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
KEY = "gang.scheduling.koordinator.sh/"
GROUP = "scheduling.sigs.k8s.io/v1alpha1"
QUOTA = "quota.scheduling.koordinator.sh/name"
PROTOCOLS = ("PodGroup", "PodGroup", "annotations", "labels")


def history(random: Random, lives: int, steps: int) -> History:
    return History(chart_profile(), [LifeOfGangs(random, f"l{i}").made(steps) for i in range(lives)])


class Gang:
    """A gang of a life: its protocol, and how many members it has had."""

    def __init__(self, name: str, protocol: str, least: int, cpu: str, annotations: dict[str, str]) -> None:
        self.name = name
        self.protocol = protocol
        self.least = least
        self.cpu = cpu
        self.annotations = annotations
        self.members = 0


class LifeOfGangs:
    """One life that is being made."""

    def __init__(self, random: Random, name: str) -> None:
        self._random = random
        self._name = name
        self._gangs: list[Gang] = []
        self._pods: list[Json] = []
        self._quota = f"{name}-q" if random.random() < 0.4 else ""

    def made(self, steps: int) -> Life:
        objects = [node(self._name, "a", "8", "16Gi"), *([node(self._name, "b", "3", "6Gi")] if self._random.random() < 0.5 else [])]
        if self._quota:
            spec = {"max": {"cpu": str(self._random.choice([3, 4, 6]))}, "min": {"cpu": "0"}}
            metadata = {"name": self._quota, "namespace": "default"}
            objects.append({"apiVersion": GROUP, "kind": "ElasticQuota", "metadata": metadata, "spec": spec})
        return Life(self._name, objects, [self._change() for _ in range(steps)])

    def _change(self) -> list[Change]:
        random = self._random
        kind = random.choices(["gang", "members", "pod", "gone", "done"], [25, 40, 12, 18, 5])[0]
        if kind == "gang" or not self._gangs:
            return self._make()
        if kind in {"gone", "done"} and self._pods:
            one = named(self._pods.pop(random.randrange(len(self._pods))))
            return [Change("delete", one) if kind == "gone" else Change("status", {**one, "status": {"phase": "Succeeded"}})]
        if kind == "pod":
            return [self._created(pod(self._name, f"alone-{random.randrange(1000)}", {"cpu": random.choice(["1", "2", "4"])}))]
        gang = random.choice(self._gangs)
        return [self._member(gang) for _ in range(random.randint(1, 3))]

    def _make(self) -> list[Change]:
        random = self._random
        least, name = random.choice([1, 2, 2, 3, 4]), f"{self._name}-g{len(self._gangs)}"
        annotations: dict[str, str] = {}
        if random.random() < 0.3:
            annotations[KEY + "mode"] = random.choice(["Strict", "NonStrict"])
        if random.random() < 0.3:
            annotations[KEY + "match-policy"] = random.choice(["once-satisfied", "only-waiting", "waiting-and-running"])
        if random.random() < 0.2 and self._gangs:
            other = random.choice(self._gangs)
            names = [f"default/{other.name}", f"default/{name}"]
            annotations[KEY + "groups"] = json.dumps(names)
            other.annotations = {**other.annotations, KEY + "groups": json.dumps(names)}
        gang = Gang(name, random.choice(PROTOCOLS), least, random.choice(["500m", "1", "2", "3"]), annotations)
        self._gangs.append(gang)
        changes = []
        if gang.protocol == "PodGroup":
            metadata = {"name": name, "namespace": "default", "annotations": annotations}
            body = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": least}}
            changes.append(Change("create", body))
        return changes + [self._member(gang) for _ in range(random.choice([0, 1, least, least, least + 1]))]

    def _member(self, gang: Gang) -> Change:
        annotations, labels = {}, {}
        if gang.protocol == "PodGroup":
            labels[GROUP_LABEL] = gang.name
        elif gang.protocol == "labels":
            labels = {f"{GROUP_LABEL}/name": gang.name, f"{GROUP_LABEL}/min-available": str(gang.least)}
        else:
            annotations = {**gang.annotations, KEY + "name": gang.name, KEY + "min-available": str(gang.least)}
        gang.members += 1
        name = f"{gang.name.partition('-')[2]}-m{gang.members}"
        return self._created(pod(self._name, name, {"cpu": gang.cpu}, labels=labels, annotations=annotations))

    def _created(self, body: Json) -> Change:
        if self._quota:
            body["metadata"].setdefault("labels", {})[QUOTA] = self._quota
        self._pods.append(body)
        return Change("create", body)
