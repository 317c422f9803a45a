"""QoS classes of pods (apis/extension/qos.go of Koordinator v1.8.0)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
