"""What follows from an event: quotas that may have more room are announced, and listeners learn that numbers of the tree may have changed.

Pods that wait under the announced quotas are moved, no others (elasticquota.md DEV-3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import ELASTIC_QUOTA
from koordsched.queue.events import ActionType, AdmissionKey, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.manager import QuotaManager

PLUGIN = "ElasticQuota"
ROOM_GREW = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, ELASTIC_QUOTA.plural_group)


class TreeChanges:
    """To be called after every event, with the tree that it changed."""

    def __init__(self, handle: Handle) -> None:
        self._announce = handle.announce
        self._listeners: list[Callable[[QuotaManager], None]] = []

    def follow(self, listener: Callable[[QuotaManager], None]) -> None:
        """Have this called after an event that may have changed numbers of a tree, and not again before it has unset `is_noted`."""
        self._listeners.append(listener)

    def after_event(self, manager: QuotaManager) -> None:
        if manager.kernel.waiting:
            for row in manager.up_to_date().take_grown():
                self._announce(ROOM_GREW, AdmissionKey(PLUGIN, manager.quota_of(row).name))
        if not manager.is_noted and self._listeners:
            self.note(manager)

    def note(self, manager: QuotaManager) -> None:
        """Let listeners know of a change that makes no room."""
        if not manager.is_noted:
            manager.is_noted = bool(self._listeners)
            for listener in self._listeners:
                listener(manager)
