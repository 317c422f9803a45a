"""Which of a pod's requests Filter checks, and what its reason codes mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.fit import MAX_IDS, UNRESOLVABLE
from koordsched.api.names import is_extended_resource_name
from koordsched.framework.status import Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns
    from koordsched.config.args import NodeResourcesFitArgs

TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient {resource}"
TOO_MANY_RESOURCES = "the pod requests {count} resources, of which NodeResourcesFit can check at most {limit}"

MAX_RESOURCES = MAX_IDS - 1  # besides "pods"


class CheckedRequests:
    """Pods' requests without the resources that the plugin's arguments say to ignore."""

    def __init__(self, args: NodeResourcesFitArgs, columns: Columns) -> None:
        self._columns = columns
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)

    def checked(self, pod: PodInfo) -> dict[str, int]:
        """Return the amounts (> 0) that a node must have left for the pod; do not change it."""
        requests = pod.resources.requests
        if not self._ignored and not self._ignored_groups:
            return requests
        return {name: amount for name, amount in requests.items() if not self._is_ignored(name)}

    def _is_ignored(self, name: str) -> bool:
        # Only extended resources can be ignored: not kubernetes.io/batch-cpu, though it is a scalar one.
        return is_extended_resource_name(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def request(self, pod: PodInfo) -> Request:
        """Return what to check, in the order in which reasons are reported: pods, cpu, memory, ephemeral-storage, then the others."""
        checked = self.checked(pod)
        if len(checked) == len(pod.resources.requests):
            return self._columns.request(pod.resources)
        return self._columns.new_request(pod.resources, checked)

    def refuse(self, request: Request) -> Status | None:
        """Refuse a pod of more resources than a reason code has bits for. Kubernetes knows no such limit; no node offers so many."""
        count = len(request) - 1
        if count <= MAX_RESOURCES:
            return None
        return unresolvable(TOO_MANY_RESOURCES.format(count=count, limit=MAX_RESOURCES))

    def explain(self, request: Request, code: int) -> Status:
        short = [resource for bit, resource in enumerate(request.names) if code >> bit & 1]
        reasons = [TOO_MANY_PODS if resource == "pods" else INSUFFICIENT.format(resource=resource) for resource in short]
        return unresolvable(*reasons) if code & UNRESOLVABLE else unschedulable(*reasons)
