"""What a debugger compares (`Sources`), and what it finds (`Comparison`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.reserve_pods import ReservePod
from koordsched.scheduler.origins import LivePods

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable

    from koordsched.api.core import Node, Pod
    from koordsched.cluster.informer import Informer
    from koordsched.scheduler.context import SchedulerContext


class Sources(msgspec.Struct, frozen=True):
    """One scheduler's context and watches. `profiles` are the scheduler names whose pods this scheduler is for."""

    context: SchedulerContext
    nodes: Informer[Node]
    pods: Informer[Pod]
    profiles: Container[str]

    @property
    def live(self) -> LivePods:
        return LivePods(self.pods.store, self.context.reserve_pods)

    def repeat_pod(self, key: str) -> None:
        """Call all handlers anew with a pod, or the Reservation for which it stands; nothing happens if it does not exist."""
        pod = self.context.reserve_pods.get(key)
        if isinstance(pod, ReservePod):
            self.context.informers.of(RESERVATION).repeat(pod.reservation.metadata.name)
        else:
            self.pods.repeat(key)


class WrongNode(msgspec.Struct, frozen=True):
    """A fact of a node that is another than its object and the pods on it say. cpu is in milli-cores, all else in whole units."""

    node: str
    column: str
    cached: Any
    actual: Any


class Stale(msgspec.Struct, frozen=True):
    """An object that the watch shows in an older version than the API server has; equal versions: with another content."""

    kind: str
    object: str
    watched: str
    actual: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Missed: the cluster has it, the scheduler does not know it. Redundant: the other way round. Nodes by name, pods as "ns/name (uid)".

    `unreadable` objects (a quantity that is none) are left out on purpose and explain a pod that stays pending; they are no difference.
    `nodes` and `pods` are how many the watches knew when they were compared.
    """

    missed_nodes: tuple[str, ...] = ()
    redundant_nodes: tuple[str, ...] = ()
    missed_pods: tuple[str, ...] = ()
    redundant_pods: tuple[str, ...] = ()
    wrong_nodes: tuple[WrongNode, ...] = ()
    stale: tuple[Stale, ...] = ()
    unreadable: tuple[str, ...] = ()
    nodes: int = 0
    pods: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not any(getattr(self, name) for name in FINDINGS)

    def still(self, later: Comparison) -> Comparison:
        """Return what this comparison and a later one both found."""
        return replace(later, **{name: _in_both(getattr(self, name), getattr(later, name)) for name in FINDINGS})

    def merged(self, other: Comparison) -> Comparison:
        """Return what either found; the counts are this one's."""
        named = {name: tuple(sorted({*getattr(self, name), *getattr(other, name)})) for name in (*NAMES, "unreadable")}
        return replace(self, **named, wrong_nodes=self.wrong_nodes + other.wrong_nodes, stale=self.stale + other.stale)

    def report(self) -> dict[str, Any]:
        """Return everything as JSON-like data, `ok` first."""
        return {"ok": self.ok, **msgspec.to_builtins(self)}


NAMES = ("missed_nodes", "redundant_nodes", "missed_pods", "redundant_pods")
FINDINGS = (*NAMES, "wrong_nodes", "stale")


def _in_both(before: Iterable[str | WrongNode | Stale], now: Iterable[str | WrongNode | Stale]) -> tuple[str | WrongNode | Stale, ...]:
    seen = {_identity(each) for each in before}
    return tuple(each for each in now if _identity(each) in seen)


def _identity(finding: str | WrongNode | Stale) -> Hashable:
    """Say what makes two findings the same: a watch that moved on since is behind, but it is not stuck."""
    if isinstance(finding, WrongNode):
        return finding.node, finding.column
    if isinstance(finding, Stale):
        return finding.kind, finding.object, finding.watched
    return finding


def pod_name(key: str, uid: str) -> str:
    """Name a pod so that one of the same name that came after it is another."""
    return f"{key} ({uid})"


def key_of(name: str) -> str:
    """Return the key in a name that `pod_name` made."""
    return name.partition(" (")[0]


def uid_of(name: str) -> str:
    """Return the uid in a name that `pod_name` made."""
    return name.partition(" (")[2][:-1]
