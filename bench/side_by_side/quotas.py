"""The theme `quota`: pods of 100 quotas in turn, below 10 parents, all with room for them.

Also what that needs: who schedules may read, create and patch quotas; and the patches of a binder that only counts what pods of a quota
use, as often as the scheduler writes them: one a second and quota where something changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from support.controlplane.credentials import SCHEDULER

from koordsched.api.core import Pod
from koordsched.api.kinds import ELASTIC_QUOTA
from koordsched.api.koordinator.quota_definitions import CHILD_REQUEST, IS_PARENT, PARENT, QUOTA_NAME, REQUEST, RUNTIME, TRUE
from koordsched.cluster.port import Cluster, Patch, Ref

QUOTA = "quota"
PLUGIN = "ElasticQuota"
QUOTAS, PARENTS = 100, 10
NAMESPACE = "default"
MOST = {"cpu": "100000", "memory": "1000Ti"}
REQUESTS = {"cpu": "500m", "memory": "512Mi"}
PROFILE = {
    "plugins": {"preFilter": {"enabled": [{"name": PLUGIN}]}, "reserve": {"enabled": [{"name": PLUGIN}]}},
    "pluginConfig": [{"name": PLUGIN, "args": {"quotaGroupNamespace": NAMESPACE}}],
}
PATCH_SECONDS = 1.0
RIGHTS = "side-by-side-quotas"
RBAC = "rbac.authorization.k8s.io"

Created = tuple[str, dict[str, Any]]  # the collection's path, and the object


def quota_of(number: int) -> str:
    """Return the quota of the pod of this number."""
    return f"quota-{number % QUOTAS}"


def quotas() -> Iterator[Created]:
    for number in range(PARENTS):
        yield _quota(f"parent-{number}", {IS_PARENT: TRUE})
    for number in range(QUOTAS):
        yield _quota(quota_of(number), {PARENT: f"parent-{number % PARENTS}"})


def _quota(name: str, labels: dict[str, str]) -> Created:
    path = f"/apis/{ELASTIC_QUOTA.api_version}/namespaces/{NAMESPACE}/elasticquotas"
    metadata = {"name": name, "labels": labels}
    return path, {"apiVersion": ELASTIC_QUOTA.api_version, "kind": ELASTIC_QUOTA.kind, "metadata": metadata, "spec": {"max": MOST}}


def rights() -> Iterator[Created]:
    """Yield the role, and who has it."""
    verbs = ["get", "list", "watch", "create", "patch"]
    rules = [{"apiGroups": ["scheduling.sigs.k8s.io"], "resources": ["elasticquotas"], "verbs": verbs}]
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": RIGHTS}}
    yield f"/apis/{RBAC}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": rules}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": RIGHTS}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": SCHEDULER.user}]
    yield f"/apis/{RBAC}/v1/clusterrolebindings", {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}


class UseWriter:
    """Writes what the pods of each quota that were bound use, in the words of the scheduler."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._used: Counter[str] = Counter()
        self._changed: set[str] = set()

    def bound(self, pod: Pod) -> None:
        name = pod.metadata.labels.get(QUOTA_NAME)
        if name:
            for quota in (name, f"parent-{int(name.rpartition('-')[2]) % PARENTS}"):
                self._used[quota] += 1
                self._changed.add(quota)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PATCH_SECONDS)
            changed, self._changed = sorted(self._changed), set()
            for name in changed:
                await self._cluster.patch(Ref(ELASTIC_QUOTA, NAMESPACE, name), Patch(self._body(name)))

    def _body(self, name: str) -> dict[str, Any]:
        pods = self._used[name]
        used = {"cpu": f"{500 * pods}m", "memory": f"{512 * pods}Mi"}
        text = msgspec.json.encode(used).decode()
        return {"metadata": {"annotations": dict.fromkeys((REQUEST, CHILD_REQUEST, RUNTIME), text)}, "status": {"used": used}}
