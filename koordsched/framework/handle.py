"""Handle: what a plugin may use of its surroundings, given to it when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import random

    from koordsched.api.kinds import Kind
    from koordsched.cache.cache import Cache
    from koordsched.cache.columns import Columns
    from koordsched.clock import Clock
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.port import Cluster
    from koordsched.config.features import FeatureGates
    from koordsched.framework.extenders import PreemptionExtenders
    from koordsched.framework.services import Services
    from koordsched.framework.waiting import WaitingPods


class Handle(Protocol):
    """The scheduler as a plugin sees it; the same for all plugins of all profiles."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> random.Random: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def columns(self) -> Columns: ...
    @property
    def waiting_pods(self) -> WaitingPods: ...
    @property
    def extenders(self) -> PreemptionExtenders | None: ...
    @property
    def gates(self) -> FeatureGates: ...
    @property
    def services(self) -> Services:
        """What the scheduler does for plugins once it runs; not to be asked for while they are made."""

    def informer(self, kind: Kind) -> Informer[Any]:
        """Return the mirror of a kind of object: a store to read and changes to follow. To be asked for while the plugin is made only:
        nothing is scheduled before its first list has been handled. Pods and nodes are in the cache; who wants more adds a handler there.
        """
