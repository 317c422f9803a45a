"""Priority classes of pods (apis/extension/priority.go and priority_utils.go of Koordinator v1.8.0, nodenumaresource.md §4)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from koordsched.api.koordinator.qos import QosClass

if TYPE_CHECKING:
    from koordsched.api.core import Pod

PRIORITY_CLASS = "koordinator.sh/priority-class"
"""Label of pods; it overrides spec.priority."""


class KoordinatorPriorityClass(StrEnum):
    """A band of priorities."""

    NONE = ""
    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"


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


def priority_class(pod: Pod, qos: QosClass) -> KoordinatorPriorityClass:
    """Return the pod's class: by its label, else by the band of spec.priority; where that is none, the usual one of its QoS class.

    A label that names no class is none, whatever spec.priority says.
    """
    label = pod.metadata.labels.get(PRIORITY_CLASS)
    named = _BY_TEXT.get(label, KoordinatorPriorityClass.NONE) if label is not None else _by_value(pod.spec.priority)
    return named or _BY_QOS.get(qos, KoordinatorPriorityClass.NONE)


def _by_value(priority: int | None) -> KoordinatorPriorityClass:
    if priority is not None:
        for lowest, highest, band in _BANDS:
            if lowest <= priority <= highest:
                return band
    return KoordinatorPriorityClass.NONE
