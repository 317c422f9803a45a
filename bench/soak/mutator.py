"""Lets everything come, change and go: a little each time it is asked to, as much as is due."""

from __future__ import annotations

import time
from collections import defaultdict
from random import Random

from churn.cluster import PODS, Json, gently
from churn.mutator import Due
from side_by_side import koordinator
from support.controlplane.rest import Rest
from support.proxy import Weather

from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.quota_definitions import QUOTA_NAME, SHARED_WEIGHT
from soak import objects
from soak.cluster import DescribedNodes
from soak.objects import POD_GROUPS, QUOTAS, RESERVATIONS, TEAMS
from soak.settings import SoakSettings

CHANGE_SECONDS, REPLACE_SECONDS, GANG_SECONDS, RESERVATION_SECONDS, QUOTA_SECONDS, GONE_SECONDS = 1.0, 7.0, 2.0, 1.5, 3.0, 11.0
REPORT_SECONDS = 60.0
WATCHED = ("pods", "nodes", "reservations", "elasticquotas", "devices", "nodemetrics", "podgroups", "noderesourcetopologies")


class SoakMutator:
    """Creates, deletes and changes. `created` and `deleted` count pods; `pods` are those that are not members of gangs."""

    def __init__(self, rest: Rest, settings: SoakSettings, weather: Weather) -> None:
        self.created = self.deleted = 0
        self.pods: list[str] = []
        self.gangs: dict[str, int] = {}  # by name: how many members
        self.reservations: list[str] = []
        self._rest = rest
        self._settings = settings
        self._weather = weather
        self._random = Random(settings.seed)
        self._serial = 0
        self._of_quota: dict[str, set[str]] = defaultdict(set)  # pods of further quotas
        self._further: list[str] = []  # quotas that come and go
        self._prepare()
        self.nodes = DescribedNodes(rest, self._random, settings.nodes)
        self._dues = {
            Due(1 / settings.rate): self._change_pods,
            Due(CHANGE_SECONDS): self.nodes.change,
            Due(REPLACE_SECONDS): self.nodes.replace,
            Due(REPORT_SECONDS / settings.nodes): self.nodes.report_next,
            Due(GANG_SECONDS): self._change_gangs,
            Due(RESERVATION_SECONDS): self._change_reservations,
            Due(QUOTA_SECONDS): self._change_quotas,
            Due(GONE_SECONDS): self._lose_history,
        }

    def step(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for due, work in self._dues.items():
            for _ in range(due.times(now)):
                work()

    def pause(self) -> None:
        """Say that nothing is done for a while."""
        for due in self._dues:
            due.pause()

    def attend(self) -> None:
        """No controller has a part in this."""

    def collect(self, listed: list[Json]) -> int:
        """Do what controllers would: delete pods on nodes that have gone, and whole gangs that have lost members. Return how many went.

        What is not there any more is forgotten.
        """
        orphans = self.nodes.delete_orphans(listed)
        self.nodes.collect()
        present = {each["metadata"]["name"] for each in listed}.difference(orphans)
        self.pods = [name for name in self.pods if name in present]
        broken = [gang for gang, size in self.gangs.items() if not {f"{gang}-{number}" for number in range(size)} <= present]
        for gang in broken:
            self._delete_gang(gang)
        return len(orphans) + len(broken)

    def _prepare(self) -> None:
        for path, body in (koordinator.namespace(), *koordinator.rights()):
            self._rest.create(path, body)
        for body in objects.priority_classes():
            self._rest.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        self._rest.create(objects.NETWORK, objects.network())
        for team, leaves in TEAMS.items():
            self._rest.create(QUOTAS, objects.quota(team, objects.TEAM_MOST))
            for leaf in leaves:
                self._rest.create(QUOTAS, objects.quota(leaf, objects.LEAF_MOST, team))

    def _change_pods(self) -> None:
        made = objects.pod(self._random, self.created, self._leaves())
        name, quota = made["metadata"]["name"], made["metadata"]["labels"].get(QUOTA_NAME, "")
        self._rest.create(PODS, made)
        self.created += 1
        self.pods.append(name)
        if quota in self._further:
            self._of_quota[quota].add(name)
        while len(self.pods) > self._settings.pods * self._random.uniform(0.9, 1.0):
            self._delete(self.pods.pop(self._random.randrange(len(self.pods))))

    def _change_gangs(self) -> None:
        """Let a gang come, and one go when there are too many: whole, as jobs do."""
        gang, size = self._name("gang"), self._random.randint(2, 6)
        self._rest.create(POD_GROUPS, objects.pod_group(gang, size, gathered=self._random.random() < 0.3))
        for number in range(size):
            self._rest.create(PODS, objects.member(gang, number))
        self.created += size
        self.gangs[gang] = size
        while len(self.gangs) > self._settings.gangs:
            self._delete_gang(self._random.choice(list(self.gangs)))

    def _change_reservations(self) -> None:
        name = self._name("reservation")
        self._rest.create(RESERVATIONS, objects.reservation(self._random, name))
        self.reservations.append(name)
        while len(self.reservations) > self._settings.reservations:
            gone = self.reservations.pop(self._random.randrange(len(self.reservations)))
            gently(self._rest.delete, f"{RESERVATIONS}/{gone}")

    def _change_quotas(self) -> None:
        """Change what a quota is guaranteed, or let one come or go; one goes when its pods have."""
        leaf = self._random.choice([leaf for leaves in TEAMS.values() for leaf in leaves])
        least = {"cpu": str(self._random.randrange(objects.LEAF_MOST)), "memory": f"{self._random.randrange(32)}Gi"}
        weight = f'{{"cpu":"{self._random.randint(1, 50)}","memory":"{self._random.randint(1, 50)}Gi"}}'
        self._rest.patch(f"{QUOTAS}/{leaf}", {"metadata": {"annotations": {SHARED_WEIGHT: weight}}, "spec": {"min": least}})
        if len(self._further) < 4:
            name = self._name("further")
            self._rest.create(QUOTAS, objects.quota(name, objects.LEAF_MOST // 2, self._random.choice(list(TEAMS))))
            self._further.append(name)
        elif self._random.random() < 0.3:
            name = self._further.pop(self._random.randrange(len(self._further)))
            for pod in self._of_quota.pop(name, set()):
                if pod in self.pods:
                    self.pods.remove(pod)
                    self._delete(pod)
            gently(self._rest.delete, f"{QUOTAS}/{name}")

    def _lose_history(self) -> None:
        self._weather.gone.add(self._random.choice(WATCHED))

    def _delete(self, name: str) -> None:
        gently(self._rest.delete, f"{PODS}/{name}?gracePeriodSeconds=0")
        self.deleted += 1

    def _delete_gang(self, gang: str) -> None:
        self.deleted += self.gangs.pop(gang)
        self._rest.delete(f"{PODS}?gracePeriodSeconds=0&labelSelector={POD_GROUP_LABEL}%3D{gang}")
        gently(self._rest.delete, f"{POD_GROUPS}/{gang}")

    def _leaves(self) -> list[str]:
        return [*(leaf for leaves in TEAMS.values() for leaf in leaves), *self._further]

    def _name(self, what: str) -> str:
        self._serial += 1
        return f"{what}-{self._serial}"
