"""PrioritySort: pods of higher priority first, then those that have waited longest since they came or were last tried.

Reference: plugins/queuesort/priority_sort.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.interface import QueueSortPlugin

if TYPE_CHECKING:
    from koordsched.queue.queued_pod import QueuedPodInfo


class PrioritySort(QueueSortPlugin):
    name = "PrioritySort"

    def sort_key(self, info: QueuedPodInfo) -> tuple[float, ...]:
        return (-info.pod_info.priority, info.timestamp)
