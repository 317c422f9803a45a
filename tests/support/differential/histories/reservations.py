"""Random lives of Reservations: with owners, strangers, policies, affinity, order, taints, ports and what they take over."""

from __future__ import annotations

import json
from random import Random

from support.differential.choosing import Json, merged
from support.differential.histories.lives import LIFE, Change, History, Life, chart_profile, named, node, pod
from support.differential.koordinator.generated import SCHEDULER_NAME

API = "scheduling.koordinator.sh/"
GROUP = "scheduling.koordinator.sh/v1alpha1"
PODS_CPU = ("500m", "1", "1", "2", "2", "3", "4", "6")
RESERVED_CPU = ("1", "2", "3", "3", "4", "5", "8", "11")
MEMORY = ("1Gi", "2Gi", "4Gi")
APPS = ("x", "x", "x", "y", "")
TAINT = {"key": "dedicated", "value": "a", "effect": "NoSchedule"}


def history(random: Random, lives: int, steps: int) -> History:
    return History(chart_profile(), [LifeOfReservations(random, f"l{i}").made(steps) for i in range(lives)])


class LifeOfReservations:
    """One life that is being made: what has been created so far, and may be changed or deleted."""

    def __init__(self, random: Random, name: str) -> None:
        self._random = random
        self._name = name
        self._nodes = [node(name, "a", "10", "20Gi", zone="z1")]
        if random.random() < 0.4:
            self._nodes.append(node(name, "b", "4", "8Gi", zone="z2"))
        self._reservations: list[Json] = []
        self._pods: list[Json] = []
        self._pre_allocates = random.random() < 0.25

    def made(self, steps: int) -> Life:
        return Life(self._name, self._nodes, [[self._change()] for _ in range(steps)])

    def _change(self) -> Change:
        random = self._random
        if not self._reservations and random.random() < 0.7:
            return self._reserve()
        kinds = ["reserve", "pod", "pod gone", "pod done", "reservation gone", "reservation", "node"]
        kind = random.choices(kinds, [18, 46, 12, 4, 5, 9, 6])[0]
        if kind == "reserve":
            return self._reserve()
        if kind in {"pod gone", "pod done"} and self._pods:
            one = named(self._pods.pop(random.randrange(len(self._pods))))
            return Change("delete", one) if kind == "pod gone" else Change("status", {**one, "status": {"phase": "Succeeded"}})
        if kind == "reservation gone" and self._reservations:
            return Change("delete", named(self._reservations.pop(random.randrange(len(self._reservations)))))
        if kind == "reservation" and self._reservations:
            return Change("patch", merged([named(random.choice(self._reservations)), self._reservation_patch()]))
        if kind == "node":
            return self._node()
        return self._create_pod()

    def _node(self) -> Change:
        one = self._random.choice(self._nodes)
        if self._random.random() < 0.5:
            amounts = {"cpu": self._random.choice(["4", "8", "10", "14"])}
            return Change("status", {**named(one), "status": {"allocatable": amounts, "capacity": amounts}})
        return Change("patch", {**named(one), "spec": {"unschedulable": self._random.random() < 0.5}})

    # Reservations

    def _reserve(self) -> Change:
        random = self._random
        name = f"{self._name}-r{len(self._reservations)}-{random.randrange(1000)}"
        requests: Json = {"cpu": random.choice(RESERVED_CPU)}
        if random.random() < 0.5:
            requests["memory"] = random.choice(MEMORY)
        resources: Json = {"limits" if random.random() < 0.04 else "requests": requests}
        container: Json = {"name": "main", "image": "registry.example/app:1", "resources": resources}
        if random.random() < 0.08:
            container["ports"] = [{"containerPort": 7000, "hostPort": 7000}]
        template_spec: Json = {"schedulerName": SCHEDULER_NAME, "nodeSelector": {LIFE: self._name}, "containers": [container]}
        if random.random() < 0.08:
            template_spec["nodeName"] = f"{self._name}-{random.choice('ab')}"
        spec: Json = {"template": {"metadata": {"namespace": "default"}, "spec": template_spec}, "owners": self._owners(), "ttl": "0s"}
        if random.random() < 0.6:
            spec["allocateOnce"] = random.random() < 0.4
        if random.random() < 0.75:
            spec["allocatePolicy"] = random.choice(["Aligned", "Restricted", "Restricted", "Default", ""])
        if random.random() < 0.06:
            spec["unschedulable"] = True
        if random.random() < 0.08:
            spec["taints"] = [{**TAINT, "effect": random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])}]
        if self._pre_allocates and random.random() < 0.6:
            spec["preAllocation"] = True
            if random.random() < 0.5:
                spec["preAllocationPolicy"] = {"mode": "Default", "enableMultiple": random.random() < 0.6}
        metadata: Json = {"name": name, "labels": {"kind": random.choice(["one", "two"])}, "annotations": {}}
        if random.random() < 0.12:
            metadata["labels"][API + "reservation-order"] = random.choice(["1", "2", "7", "0", "x"])
        if random.random() < 0.12:
            metadata["annotations"][API + "reservation-restricted-options"] = random.choice(
                ['{"resources":["cpu"]}', '{"resources":["memory"]}', "{", '{"resources":{"cpu":"1"}}']
            )
        body = {"apiVersion": GROUP, "kind": "Reservation", "metadata": metadata, "spec": spec}
        self._reservations.append(body)
        return Change("create", body)

    def _owners(self) -> list[Json]:
        random = self._random
        labels = {"app": f"{self._name}-{random.choice('xxxy')}"}
        kinds: list[Json] = [{"labelSelector": {"matchLabels": labels}}]
        if random.random() < 0.15:
            kinds.append({"object": {"name": f"{self._name}-p{random.randrange(12)}", "namespace": "default"}})
        if random.random() < 0.1:
            kinds.append({"controller": {"name": f"{self._name}-rs", "kind": "ReplicaSet", "namespace": "default"}})
        return kinds

    def _reservation_patch(self) -> Json:
        random = self._random
        kind = random.choice(["unschedulable", "unschedulable", "taints", "labels", "policy"])
        if kind == "unschedulable":
            return {"spec": {"unschedulable": random.random() < 0.6}}
        if kind == "taints":
            return {"spec": {"taints": [TAINT] if random.random() < 0.6 else []}}
        if kind == "labels":
            return {"metadata": {"labels": {"kind": random.choice(["one", "two"])}}}
        return {"spec": {"allocatePolicy": random.choice(["Aligned", "Restricted"])}}

    # Pods

    def _create_pod(self) -> Change:
        random = self._random
        requests: Json = {"cpu": random.choice(PODS_CPU)}
        if random.random() < 0.5:
            requests["memory"] = random.choice(MEMORY)
        app, annotations = random.choice(APPS), {}
        labels = {API + "disable-preemptible": "true"}  # the reference evicts for Reservations, ours does not (differences.md)
        if app:
            labels["app"] = f"{self._name}-{app}"
        if random.random() < 0.4:
            annotations[API + "reservation-affinity"] = json.dumps(self._affinity())
        if random.random() < 0.08:
            annotations[API + "exact-match-reservation"] = json.dumps(
                {"resourceNames": random.choice([["cpu"], ["memory"], ["cpu", "memory"]])}
            )
        if random.random() < 0.06:  # one that ignores reservations with an affinity would match those of other lives
            labels[API + "reservation-ignored"] = "false" if annotations else random.choice(["true", "false"])
        body = pod(self._name, f"p{len(self._pods)}-{random.randrange(1000)}", requests, labels=labels, annotations=annotations)
        if random.random() < 0.1:
            body["spec"]["containers"][0]["ports"] = [{"containerPort": 7000, "hostPort": 7000}]
        if random.random() < 0.1:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{self._name}-rs", "uid": "u-1", "controller": True}
            body = merged([body, {"metadata": {"ownerReferences": [owner]}}])
        self._pods.append(body)
        return Change("create", body)

    def _affinity(self) -> Json:
        random = self._random
        tolerations = [{"key": "dedicated", "operator": "Exists"}]
        if random.random() < 0.3:
            tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
        named_one = random.choice(self._reservations)["metadata"]["name"] if self._reservations else "none"
        term = {"matchExpressions": [{"key": random.choice(["kind", "zone"]), "operator": "In", "values": [random.choice(["one", "z1"])]}]}
        return random.choice(
            [
                {},
                {},
                {"name": named_one},
                {"name": named_one},
                {"reservationSelector": {"kind": random.choice(["one", "two"])}},
                {"tolerations": tolerations},
                {"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": [term]}},
            ]
        )
