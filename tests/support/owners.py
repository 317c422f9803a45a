"""Capacity that belongs to an owner: pods with the label `owner` may use what the owner's placeholders hold."""

from __future__ import annotations

from collections.abc import Hashable

from koordsched.api.podinfo import PodInfo
from koordsched.config import REFERENCE, Environment
from koordsched.framework.interface import CreditPlugin
from koordsched.plugins import REGISTRY
from support.world import Setup

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: NodeNUMAResource}, {name: Owners}]}
"""


class Owners(CreditPlugin):
    """Says whose a pod is by its label."""

    name = "Owners"
    signs = ("pod.metadata.labels",)

    def owner_of(self, pod: PodInfo) -> Hashable | None:
        return pod.pod.metadata.labels.get("owner")


CATALOGUE = REFERENCE.with_plugin("Owners", frozenset({"preFilter"}))
WITH_OWNERS = Setup(CONFIG, Environment(catalogue=CATALOGUE), {**REGISTRY, "Owners": lambda _args, _handle: Owners()})
