"""The pod of a dry run, as the API server would admit it: complete, and with the priority of its class.

A scheduler watches no PriorityClasses, since the API server writes into each pod what they mean. So they are listed for a dry run that does
not say its priority itself. Koordinator's chart gives no right to that: then the classes that always exist are known, and no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.cluster.memory.admission import PRIORITY_CLASSES, admit_pod, global_default
from koordsched.manifests.completion import complete_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.api.groups import PriorityClass

Json = dict[str, Any]

DEFAULT_SCHEDULER = "default-scheduler"


class UnknownPriorityError(Exception):
    """Which priority the pod would have cannot be found out; says why, and what to do."""


class KnownClasses(msgspec.Struct, frozen=True):
    """PriorityClasses by name. problem: why they could not be listed."""

    by_name: Mapping[str, Json] = {}
    problem: str = ""

    def find(self, name: str) -> Json | None:
        """Find a class by name; "" stands for the one that holds for pods without a class."""
        return self.by_name.get(name) if name else global_default(self.by_name.values())


def classes_of(listed: Iterable[PriorityClass]) -> KnownClasses:
    return KnownClasses(
        {
            each.metadata.name: {
                "metadata": {"name": each.metadata.name},
                "value": each.value,
                "globalDefault": each.global_default,
                "preemptionPolicy": each.preemption_policy,
            }
            for each in listed
        }
    )


def standard_classes(problem: str) -> KnownClasses:
    """Return what is known where classes cannot be listed."""
    return KnownClasses({name: {"metadata": {"name": name}, "value": value} for name, value in PRIORITY_CLASSES.items()}, problem)


def needs_classes(body: Json) -> bool:
    """Answer whether the pod leaves to its class what its priority is, or whether it may evict others."""
    return body["spec"].get("priority") is None or body["spec"].get("preemptionPolicy") is None


def completed(raw: Json, profiles: Iterable[str]) -> Json:
    """Complete a pod that names no scheduler, or the one that the API server writes where none is named, for the first of the profiles."""
    first, *others = profiles
    made = complete_pod(raw, first)
    if made["spec"]["schedulerName"] == DEFAULT_SCHEDULER and DEFAULT_SCHEDULER not in (first, *others):
        made["spec"]["schedulerName"] = first
    made["metadata"] = {"namespace": "default", "name": "", **made["metadata"]}  # validation names what is missing
    return made


def admit(body: Json, classes: KnownClasses, now: str) -> Sequence[str]:
    """Fill in, in place, what the API server would, and return what is to be noted of it. now: a timestamp.

    Forbidden: there is no such class; UnknownPriorityError.
    """
    spec, notes = body["spec"], tuple[str, ...]()
    if classes.problem and spec.get("priority") is None:
        name = spec.get("priorityClassName")
        if not name:
            notes = (f"taken for priority 0, as a class for all pods that name none would not be seen: {classes.problem}",)
        elif isinstance(name, str) and name not in classes.by_name:
            raise UnknownPriorityError(
                f"the priority of class {name} is not known here: {classes.problem}; config/rbac.yaml has the right to list them. "
                "The pod may name its priority itself"
            )
    admit_pod(body, classes.find, now)
    return notes
