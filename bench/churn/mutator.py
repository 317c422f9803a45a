"""Does the churn: a little each time it is asked to, as much as is due."""

from __future__ import annotations

import time
from random import Random

from support.controlplane.rest import Rest
from support.differential.binder import CLAIMS, VOLUMES, attend
from support.proxy import Weather

from churn.cluster import PODS, Json, Nodes, gently
from churn.settings import Settings
from churn.shapes import claim, pod, priority_classes, storage_class

CHANGE_SECONDS, REPLACE_SECONDS, ATTEND_SECONDS, GONE_SECONDS = 1.0, 6.0, 1.0, 13.0
WATCHED = ("pods", "nodes", "persistentvolumeclaims")


class Due:
    """Says how often something is due by now."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next = 0.0

    def times(self, now: float) -> int:
        """Return how many times since this was asked last; a long pause is not made up for."""
        if not self._next:
            self._next = now
        count = 0
        while self._next <= now:
            self._next += self._every
            count += 1
        return count

    def pause(self) -> None:
        self._next = 0.0


class Mutator:
    """Creates, deletes and changes. `created` and `deleted` count pods."""

    def __init__(self, rest: Rest, settings: Settings, weather: Weather) -> None:
        self.created = self.deleted = 0
        self._rest = rest
        self._settings = settings
        self._weather = weather
        self._random = Random(settings.seed)
        self._claims: dict[str, str] = {}  # of pods that have one
        self.pods: list[str] = []
        rest.create("/apis/storage.k8s.io/v1/storageclasses", storage_class())
        for each in priority_classes():
            rest.create("/apis/scheduling.k8s.io/v1/priorityclasses", each)
        self.nodes = Nodes(rest, self._random, settings.nodes)
        self._pods_due, self._changes_due, self._replacements_due = Due(1 / settings.rate), Due(CHANGE_SECONDS), Due(REPLACE_SECONDS)
        self._attendance_due, self._gone_due = Due(ATTEND_SECONDS), Due(GONE_SECONDS)

    def step(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for _ in range(self._pods_due.times(now)):
            self._create()
            while len(self.pods) > self._settings.pods * self._random.uniform(0.9, 1.0):
                self._delete()
        for _ in range(self._changes_due.times(now)):
            self.nodes.change()
        for _ in range(self._replacements_due.times(now)):
            self.nodes.replace()
        if self._attendance_due.times(now):
            attend(self._rest)
        if self._gone_due.times(now):
            self._weather.gone.add(self._random.choice(WATCHED))

    def pause(self) -> None:
        """Say that nothing is done for a while."""
        for due in (self._pods_due, self._changes_due, self._replacements_due, self._attendance_due, self._gone_due):
            due.pause()

    def attend(self) -> None:
        """Let pods that wait for their volumes have them."""
        attend(self._rest)

    def collect(self, listed: list[Json]) -> int:
        """Do what the pod garbage collector would, and forget what is not there; return how many pods went."""
        orphans = self.nodes.delete_orphans(listed)
        present = {each["metadata"]["name"] for each in listed}.difference(orphans)
        for name in self._claims.keys() - present:  # of pods that were preempted or drained
            self._release(name)
        self.pods = [name for name in self.pods if name in present]
        return len(orphans)

    def _create(self) -> None:
        made = pod(self._random, self.created)
        if made.claim:
            self._rest.create(CLAIMS, claim(made.claim))
            self._claims[made.pod["metadata"]["name"]] = made.claim
        self._rest.create(PODS, made.pod)
        self.created += 1
        self.pods.append(made.pod["metadata"]["name"])

    def _delete(self) -> None:
        name = self.pods.pop(self._random.randrange(len(self.pods)))
        gently(self._rest.delete, f"{PODS}/{name}?gracePeriodSeconds=0")
        self.deleted += 1
        if name in self._claims:
            self._release(name)

    def _release(self, name: str) -> None:
        held = self._claims.pop(name)
        gently(self._rest.delete, f"{CLAIMS}/{held}")
        gently(self._rest.delete, f"{VOLUMES}/made-for-{held}")
