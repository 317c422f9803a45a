"""Priority classes of pods (apis/extension/priority.go and priority_utils.go of Koordinator v1.8.0, nodenumaresource.md §4)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from koordsched.api.koordinator.qos import QosClass

if TYPE_CHECKING:
    from koordsched.api.core import Pod

PRIORITY_CLASS = "koordinator.sh/priority-class"
"""Label of pods; it overrides spec.priority."""


class PriorityClass(StrEnum):
    """A band of priorities."""

    NONE = ""
    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"


_BY_TEXT = {priority.value: priority for priority in PriorityClass}
_BANDS = (
    (9000, 9999, PriorityClass.PROD),
    (7000, 7999, PriorityClass.MID),
    (5000, 5999, PriorityClass.BATCH),
    (3000, 3999, PriorityClass.FREE),
)
_BY_QOS = {
    QosClass.SYSTEM: PriorityClass.PROD,
    QosClass.LSE: PriorityClass.PROD,
    QosClass.LSR: PriorityClass.PROD,
    QosClass.LS: PriorityClass.PROD,
    QosClass.BE: PriorityClass.BATCH,
}


def priority_class(pod: Pod, qos: QosClass) -> PriorityClass:
    """Return the pod's class: by its label, else by the band of spec.priority; where that is none, the usual one of its QoS class.

    A label that names no class is none, whatever spec.priority says.
    """
    label = pod.metadata.labels.get(PRIORITY_CLASS)
    named = _BY_TEXT.get(label, PriorityClass.NONE) if label is not None else _by_value(pod.spec.priority)
    return named or _BY_QOS.get(qos, PriorityClass.NONE)


def _by_value(priority: int | None) -> PriorityClass:
    if priority is not None:
        for lowest, highest, band in _BANDS:
            if lowest <= priority <= highest:
                return band
    return PriorityClass.NONE
