"""apps/v1 and core ReplicationController: the owners whose selectors find the pods that belong together (framework.md §10.10).

Topology spreading and the grouping of pods read only the selector. A ReplicationController's selector is a plain map, the others' a
LabelSelector.
"""

from __future__ import annotations

from msgspec import field

from koordsched.api.meta import Api, Int32, LabelSelector, Object


class ReplicaSetSpec(Api):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class ReplicaSet(Object):
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Api):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class StatefulSet(Object):
    spec: StatefulSetSpec = StatefulSetSpec()


class ReplicationControllerSpec(Api):
    replicas: Int32 | None = None
    selector: dict[str, str] = field(default_factory=dict)


class ReplicationController(Object):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
