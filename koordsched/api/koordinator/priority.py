"""Priority classes of pods, and what pods of each request instead of cpu and memory (apis/extension/priority.go, priority_utils.go and
resource.go of Koordinator v1.8.0, nodenumaresource.md §4, frameworkext.md §7).

Koordinator's manager writes into a Node's allocatable what its services leave unused (batch) or will leave unused for long (mid). Pods of
these classes request that, so that what they take is not taken off cpu and memory: to scheduling they are extended resources.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from koordsched.api.koordinator.qos import QosClass, qos_class_or_default
from koordsched.api.koordinator.reading import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod

PRIORITY_CLASS = "koordinator.sh/priority-class"
"""Label of pods; it overrides spec.priority."""
SUB_PRIORITY = "koordinator.sh/priority"
"""Label of pods: an order among those of one class."""


class KoordinatorPriorityClass(StrEnum):
    """A band of priorities."""

    NONE = ""
    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"


CLASS_VALUES = {
    KoordinatorPriorityClass.PROD: 9000,
    KoordinatorPriorityClass.MID: 7000,
    KoordinatorPriorityClass.BATCH: 5000,
    KoordinatorPriorityClass.FREE: 3000,
}
"""The values of Koordinator's PriorityClasses, which are the lowest of their bands."""

CLASS_RESOURCES = {
    KoordinatorPriorityClass.MID: {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"},
    KoordinatorPriorityClass.BATCH: {"cpu": "kubernetes.io/batch-cpu", "memory": "kubernetes.io/batch-memory"},
    KoordinatorPriorityClass.FREE: {},
}
"""What pods of these classes request instead of a resource, of which there is nothing else for them: cpu in whole milli-cores, memory in
bytes. Pods of other classes request the resource itself."""

_BY_TEXT = {priority.value: priority for priority in KoordinatorPriorityClass}
_BANDS = (
    (9000, 9999, KoordinatorPriorityClass.PROD),
    (7000, 7999, KoordinatorPriorityClass.MID),
    (5000, 5999, KoordinatorPriorityClass.BATCH),
    (3000, 3999, KoordinatorPriorityClass.FREE),
)
_BY_QOS = {
    QosClass.SYSTEM: KoordinatorPriorityClass.PROD,
    QosClass.LSE: KoordinatorPriorityClass.PROD,
    QosClass.LSR: KoordinatorPriorityClass.PROD,
    QosClass.LS: KoordinatorPriorityClass.PROD,
    QosClass.BE: KoordinatorPriorityClass.BATCH,
}


def stated_priority_class(pod: Pod) -> KoordinatorPriorityClass:
    """Return the class that the pod's label names, without one that of the band of spec.priority.

    A label that names no class is none, whatever spec.priority says.
    """
    label = pod.metadata.labels.get(PRIORITY_CLASS)
    return _BY_TEXT.get(label, KoordinatorPriorityClass.NONE) if label is not None else _by_value(pod.spec.priority)


def priority_class(pod: Pod, qos: QosClass) -> KoordinatorPriorityClass:
    """Return the class that the pod states; where that is none, the usual one of its QoS class."""
    return stated_priority_class(pod) or _BY_QOS.get(qos, KoordinatorPriorityClass.NONE)


def priority_class_or_default(pod: Pod) -> KoordinatorPriorityClass:
    """Return the class that the pod states, else that of its QoS class. QuantityError as `qos_class_or_default`."""
    return stated_priority_class(pod) or priority_class(pod, qos_class_or_default(pod))


def resource_of_class(priority: KoordinatorPriorityClass, resource: str) -> str:
    """Return what pods of the class request for a resource; "" when there is nothing for them."""
    names = CLASS_RESOURCES.get(priority)
    return resource if names is None else names.get(resource, "")


def _by_value(priority: int | None) -> KoordinatorPriorityClass:
    if priority is not None:
        for lowest, highest, band in _BANDS:
            if lowest <= priority <= highest:
                return band
    return KoordinatorPriorityClass.NONE


DEFAULT_PRIORITIES = {
    KoordinatorPriorityClass.PROD: 9500,
    KoordinatorPriorityClass.MID: 7500,
    KoordinatorPriorityClass.BATCH: 5500,
    KoordinatorPriorityClass.FREE: 3500,
    KoordinatorPriorityClass.NONE: 0,
}


def priority_or_default(pod: Pod) -> int:
    """Return spec.priority, or where that is absent or 0 the default of the pod's class. QuantityError as `qos_class_or_default`."""
    return pod.spec.priority or DEFAULT_PRIORITIES[priority_class_or_default(pod)]


def sub_priority(labels: Mapping[str, str]) -> int:
    """Return the number that the label gives, 0 without one; the prefixes 0x, 0o, 0b and 0 name a base. Malformed: it is no int32."""
    text = labels.get(SUB_PRIORITY, "")
    if not text:
        return 0
    digits = text.removeprefix("-").removeprefix("+")
    try:
        if not text.isascii() or text != text.strip():
            raise ValueError
        # Go takes 017 for octal, which Python does not.
        number = int(text, 8) if digits[:1] == "0" and digits.replace("_", "").isdecimal() else int(text, 0)
    except ValueError:
        raise Malformed(SUB_PRIORITY, "expected a whole number", text) from None
    if not -(2**31) <= number < 2**31:
        raise Malformed(SUB_PRIORITY, "expected a whole number of 32 bits", text)
    return number
