"""QoS classes of pods (apis/extension/qos.go and qos_utils.go of Koordinator v1.8.0, frameworkext.md §7)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from koordsched.api.quantity import nano

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Pod, ResourceList

QOS_CLASS = "koordinator.sh/qosClass"
"""Label of pods."""


class QosClass(StrEnum):
    """How a pod is run on its node."""

    NONE = ""
    LSE = "LSE"  # latency-sensitive, exclusive CPUs
    LSR = "LSR"  # latency-sensitive, reserved CPUs
    LS = "LS"  # latency-sensitive, shared CPUs
    BE = "BE"  # best effort
    SYSTEM = "SYSTEM"


_BY_TEXT = {qos.value: qos for qos in QosClass}


def qos_class(labels: Mapping[str, str]) -> QosClass:
    """Return the class that a pod's label names; an absent label and a text that is none are NONE."""
    return _BY_TEXT.get(labels.get(QOS_CLASS, ""), QosClass.NONE)


def qos_class_or_default(pod: Pod) -> QosClass:
    """Return the class that the pod's label names, else the one of its Kubernetes QoS class: Guaranteed LSR, Burstable LS, BestEffort BE.

    The Kubernetes class is worked out from the containers, as the API server does it. QuantityError when an amount cannot be read.
    """
    named = qos_class(pod.metadata.labels)
    if named is not QosClass.NONE:
        return named
    spec = pod.spec
    counted = [spec.resources] if spec.resources is not None else [each.resources for each in (*spec.containers, *spec.init_containers)]
    requests = _computed(each.requests for each in counted)
    limits = _computed(each.limits for each in counted)
    if not requests and not limits:
        return QosClass.BE
    limited = all(nano(each.limits.get(name, 0)) > 0 for each in counted for name in _COMPUTE)
    return QosClass.LSR if limited and requests == limits else QosClass.LS


_COMPUTE = ("cpu", "memory")  # the resources that decide on the class


def _computed(lists: Iterable[ResourceList]) -> dict[str, int]:
    """Add up cpu and memory; what is 0 counts as not there."""
    totals: dict[str, int] = {}
    for amounts in lists:
        for name in _COMPUTE:
            amount = nano(amounts.get(name, 0))
            if amount > 0:
                totals[name] = totals.get(name, 0) + amount
    return totals
