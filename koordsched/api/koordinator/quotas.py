"""ElasticQuota and ElasticQuotaProfile: what the pods of a quota may use (elasticquota.md §1).

Neither has a status subresource: `status.used` is written with the main resource. All else about a quota is in its labels and annotations
(`quota_definitions`).
"""

from __future__ import annotations

from msgspec import field

from koordsched.api.core import ResourceList
from koordsched.api.meta import Api, LabelSelector, Object


class ElasticQuotaSpec(Api):
    """`min` is the quota's own, up to `max` it may borrow. A resource that `max` does not name is not limited."""

    min: ResourceList = field(default_factory=dict)
    max: ResourceList = field(default_factory=dict)


class ElasticQuotaStatus(Api):
    used: ResourceList = field(default_factory=dict)


class ElasticQuota(Object):
    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


class ElasticQuotaProfileSpec(Api):
    """The root quota of a tree, made of the selected nodes' capacity; `resource_ratio` is the share of it, such as "0.9"."""

    quota_name: str = ""
    node_selector: LabelSelector | None = None
    quota_labels: dict[str, str] = field(default_factory=dict)
    resource_ratio: str | None = None


class ElasticQuotaProfile(Object):
    spec: ElasticQuotaProfileSpec = ElasticQuotaProfileSpec()
