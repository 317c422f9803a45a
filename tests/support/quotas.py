"""Quotas for tests, and a plugin bench on which quotas, nodes and pods come, change and go as watches report them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from koordsched.api.kinds import ELASTIC_QUOTA, POD
from koordsched.api.koordinator.quota_definitions import PREFIX, QUOTA_NAME, amount_text
from koordsched.api.validation import decode
from koordsched.config.features import DEFAULTS, FeatureGates
from koordsched.config.koordinator_args import ElasticQuotaArgs, _complete_elastic_quota
from koordsched.plugins.elasticquota.plugin import ElasticQuotaPlugin
from koordsched.queue.events import AdmissionKey
from support.builders import PodBuilder
from support.plugins import WatchingBench
from support.queueing import HandClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod, Quantity
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.api.meta import Object
    from koordsched.queue.events import ClusterEvent

VERSIONS = count(1)
START = 1_800_000_000.0


def quota(
    name: str,
    *,
    most: Mapping[str, Quantity] | None = None,
    least: Mapping[str, Quantity] | None = None,
    parent: str = "",
    namespace: str = "default",
    created: str = "2026-01-01T00:00:00Z",
    annotations: Mapping[str, str] | None = None,
    **labels: str,
) -> ElasticQuota:
    """Make a quota. Labels and annotations go without Koordinator's prefix; "_" in a label's name stands for "-"."""
    keyed = {PREFIX + key.replace("_", "-"): text for key, text in labels.items()}
    if parent:
        keyed[PREFIX + "parent"] = parent
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-quota-{namespace}-{name}",
        "resourceVersion": str(next(VERSIONS)),
        "creationTimestamp": created,
        "labels": keyed,
        "annotations": {PREFIX + key: text for key, text in (annotations or {}).items()},
    }
    spec = {key: dict(amounts) for key, amounts in (("max", most), ("min", least)) if amounts is not None}
    manifest = {"apiVersion": ELASTIC_QUOTA.api_version, "kind": ELASTIC_QUOTA.kind, "metadata": metadata, "spec": spec}
    return cast("ElasticQuota", decode(ELASTIC_QUOTA, manifest))


def of_quota(builder: PodBuilder, name: str) -> PodBuilder:
    return builder.label(QUOTA_NAME, name)


def quota_args(**fields: Any) -> ElasticQuotaArgs:
    """Make arguments, with defaults filled in as a configuration's are."""
    return _complete_elastic_quota(ElasticQuotaArgs(**fields), FeatureGates())


class QuotaBench(WatchingBench):
    """A plugin bench with quotas. What is announced is kept, by quota."""

    def __init__(self, *, gates: tuple[str, ...] = (), **fields: Any) -> None:
        super().__init__()
        self.hand = HandClock(START)
        self.clock = self.hand
        self.gates = FeatureGates({**DEFAULTS, **dict.fromkeys(gates, True)})
        self.announced: list[str] = []
        self.plugin = ElasticQuotaPlugin(quota_args(**fields), self)
        self.state = self.plugin._state

    def announce(self, event: ClusterEvent, key: AdmissionKey | None = None, *, regarding: Object | None = None) -> None:
        assert key is not None
        self.announced.append(str(key.key))

    def quota(self, name: str, **fields: Any) -> None:
        """Let a quota come, or change."""
        self.came(ELASTIC_QUOTA, quota(name, **fields))

    def remove_quota(self, name: str, namespace: str = "default") -> None:
        self.went(ELASTIC_QUOTA, f"{namespace}/{name}")

    def pod(self, builder: PodBuilder) -> Pod:
        """Let a pod come, or change."""
        made = builder.build()
        made = replace(made, metadata=replace(made.metadata, resource_version=str(next(VERSIONS))))
        self.came(POD, made)
        return made

    def remove_pod(self, name: str, namespace: str = "default") -> None:
        self.went(POD, f"{namespace}/{name}")

    def refusal(self, builder: PodBuilder) -> str:
        """Return why the pod is refused, "" if it is admitted."""
        status = self.plugin.admit(builder.info())
        return "" if status is None else status.message or status.code.value

    def amount(self, column: str, name: str, resource: str = "cpu") -> str:
        """Return an amount as JSON has it, "" where there is none."""
        found = self.state.quotas[name].amounts(column) if column != "runtime" else self.state.quotas[name].runtimes()
        return amount_text(resource, found[resource]) if resource in found else ""
