"""What a scenario file says, after reading: one Struct for each noun of scenarios.md."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec

from koordsched.cluster.port import Ref
from koordsched.config.types import SchedulerConfiguration

DEFAULT_WITHIN = 10.0
KUBE_SCHEDULER, KOORDINATOR = "kube-scheduler", "koordinator"
KNOWN_SCHEDULERS = (KUBE_SCHEDULER, KOORDINATOR)
"""Others that a scenario may be played with: Kubernetes' own scheduler, and the reference."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Base: immutable, fields by name."""


class InitialObjects(Model):
    """An object to create, `repeat` times; `path` is where it stands in the document."""

    path: str
    body: dict[str, Any]
    repeat: int | None = None


class NodeRule(Model):
    """Where a pod must be: on one of `one_of` (empty: anywhere), and not on one of `none_of`."""

    one_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()


class PodRule(Model):
    """What must hold of one pod; None: not asked. by_plugin: rules of plugins' own keys (`framework.tooling.PodCheck`)."""

    node: NodeRule | None = None
    pending: bool | str | None = None
    gated: bool | None = None
    gone: bool | None = None
    annotations: dict[str, Any] = {}
    by_plugin: dict[str, Any] = {}
    nominated: str | None = None


class ObjectRule(Model):
    """What must hold of one object: it contains `has`, or it does not exist."""

    target: Ref
    has: dict[str, Any] | None = None
    gone: bool = False


class CountRule(Model):
    """How many pods, of those that carry the labels, must be bound or unbound."""

    count: int
    selector: dict[str, str] = {}


class LabelRule(Model):
    """The nodes of these pods must carry one value of the label."""

    key: str
    pods: tuple[str, ...]


class EventRule(Model):
    """An event about the object (namespace/name, a pod unless `kind` says otherwise) with this reason and text must have been emitted."""

    name: str
    reason: str
    contains: str = ""
    kind: str = "Pod"


class HttpRule(Model):
    """What a GET on the scheduler's secure port must answer."""

    path: str
    status: int = 200
    contains: dict[str, Any] | list[Any] | str | None = None


class Create(Model):
    objects: tuple[InitialObjects, ...]


class PatchObject(Model):
    path: str
    target: Ref
    merge: dict[str, Any]


class PatchObjects(Model):
    patches: tuple[PatchObject, ...]


class Delete(Model):
    targets: tuple[tuple[str, Ref], ...]  # path, target


class Wait(Model):
    seconds: float


class Restart(Model):
    pass


class Expect(Model):
    """All of this must hold at once within so many seconds, and then go on holding for `stays` seconds. Pods are named ns/name."""

    pods: dict[str, PodRule] = {}
    objects: tuple[ObjectRule, ...] = ()
    bound: CountRule | None = None
    pending: CountRule | None = None
    samenode: tuple[tuple[str, ...], ...] = ()
    distinctnodes: tuple[tuple[str, ...], ...] = ()
    samelabel: tuple[LabelRule, ...] = ()
    disjoint: tuple[str, ...] = ()
    events: tuple[EventRule, ...] = ()
    http: tuple[HttpRule, ...] = ()
    stays: float = 0.0
    within: float = DEFAULT_WITHIN


Action = Create | PatchObjects | Delete | Wait | Restart | Expect


class Step(Model):
    path: str
    action: Action


class Scenario(Model):
    """One scenario. `body`: the document that it was read from. `config`: its own one, complete, and `document` as it was given; None: the
    caller's.

    `differs` says on which other schedulers (KNOWN_SCHEDULERS) it does not hold, and why.
    """

    origin: str
    body: Any
    name: str
    why: str
    config: SchedulerConfiguration | None
    document: dict[str, Any] | None
    args: tuple[str, ...]
    differs: dict[str, str]
    given: tuple[InitialObjects, ...]
    steps: tuple[Step, ...]
