"""Labels and annotations whose value is one of some words, or a number: what is said where it is none of them.

Such a value counts as if it were not there, as in Koordinator, so that a pod with a misspelt QoS class runs without CPUs of its own and
nothing refuses it. Here its author reads of it in an event of the object, once as long as the value stays. What is read as JSON is reported
by the plugins that read it, but for the link of an owner to its reservation, and for what a Reservation restricts, which its plugin reads
only once the Reservation has a node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, NODE, POD, RESERVATION, Kind
from koordsched.api.koordinator import quota_definitions as quotas
from koordsched.api.koordinator.devices import GPU_PARTITION_POLICY, SECONDARY_DEVICE_WELL_PLANNED
from koordsched.api.koordinator.gang_membership import LIGHTWEIGHT_MIN, MIN_AVAILABLE, RANK, WAITING_TIME
from koordsched.api.koordinator.nodes import CPU_BIND_POLICY, NUMA_ALLOCATE_STRATEGY
from koordsched.api.koordinator.operating_pods import OPERATING_MODE, RESERVATION_MODE
from koordsched.api.koordinator.priority import PRIORITY_CLASS, SUB_PRIORITY, KoordinatorPriorityClass, sub_priority
from koordsched.api.koordinator.qos import QOS_CLASS, QosClass
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.reservation_links import (
    RESERVATION_ALLOCATED,
    RESERVATION_IGNORED,
    RESERVATION_ORDER,
    RESTRICTED_OPTIONS,
    is_allocated_text,
    is_restricted_options_text,
)
from koordsched.cluster.event_series import EventText
from koordsched.cluster.object_store import LatestStateHandler, object_key
from koordsched.log import get_logger
from koordsched.scheduler.transformers.pods import PREEMPTION_POLICIES, PREEMPTION_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koordsched.api.meta import Object
    from koordsched.cluster.object_store import Handler
    from koordsched.scheduler.context import SchedulerContext

log = get_logger(__name__)

EVENT: Final = "InvalidAnnotation"
AS_ABSENT = "it counts as if it were not there"
DISABLE_PREEMPTIBLE = "scheduling.koordinator.sh/disable-preemptible"
PRE_ALLOCATION_REQUIRED = "scheduling.koordinator.sh/pre-allocation-required"


class KnownValues:
    """What the values of one key are, besides the empty text. instead: what counts where the value is none of them."""

    def __init__(self, matches: Callable[[str], object], expected: str, instead: str = AS_ABSENT) -> None:
        """matches: returns something true for a value."""
        self.matches = matches
        self.expected = expected
        self.instead = instead

    @classmethod
    def pattern(cls, pattern: str, expected: str) -> KnownValues:
        return cls(re.compile(pattern, re.ASCII).fullmatch, expected)

    @classmethod
    def numbers(cls, numbers: range, expected: str) -> KnownValues:
        is_number = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII).fullmatch
        return cls(lambda text: is_number(text) is not None and int(text) in numbers, expected)

    @classmethod
    def words(cls, words: Iterable[str], instead: str = AS_ABSENT) -> KnownValues:
        listed = sorted(word for word in words if word)
        *others, last = listed
        return cls(frozenset(listed).__contains__, f"expected {', '.join(others)} or {last}" if others else f"expected {last}", instead)


def is_sub_priority(text: str) -> bool:
    try:
        sub_priority({SUB_PRIORITY: text})
    except Malformed:
        return False
    return True


TRUTH = KnownValues.words(("true", "false"))
NUMBER = KnownValues.numbers(range(-(2**63), 2**63), "expected a whole number")
COUNT = KnownValues.numbers(range(2**31), "expected a whole number of 0 or more")
SUB_PRIORITIES = KnownValues(is_sub_priority, "expected a whole number")
DURATION = KnownValues.pattern(r"[+-]?([0-9]{0,20}(\.[0-9]{0,20})?(ns|us|µs|μs|ms|s|m|h)){1,12}|0", "expected a duration such as 10m")
PARTITION_POLICIES = KnownValues.words(("Honor", "Prefer"))

Keys = dict[str, KnownValues]

LABELS: dict[Kind, Keys] = {
    POD: {
        QOS_CLASS: KnownValues.words(QosClass),
        PRIORITY_CLASS: KnownValues.words(KoordinatorPriorityClass),
        SUB_PRIORITY: SUB_PRIORITIES,
        PREEMPTION_POLICY: KnownValues.words(PREEMPTION_POLICIES),
        DISABLE_PREEMPTIBLE: TRUTH,
        quotas.PREEMPTIBLE: TRUTH,
        RESERVATION_IGNORED: TRUTH,
        OPERATING_MODE: KnownValues.words((RESERVATION_MODE,)),
        LIGHTWEIGHT_MIN: COUNT,
    },
    NODE: {
        CPU_BIND_POLICY: KnownValues.words(("FullPCPUsOnly", "SpreadByPCPUs")),
        NUMA_ALLOCATE_STRATEGY: KnownValues.words(("LeastAllocated", "MostAllocated", "DistributeEvenly"), "LeastAllocated counts"),
        GPU_PARTITION_POLICY: PARTITION_POLICIES,
    },
    DEVICE: {GPU_PARTITION_POLICY: PARTITION_POLICIES, SECONDARY_DEVICE_WELL_PLANNED: TRUTH},
    ELASTIC_QUOTA: {
        quotas.IS_PARENT: TRUTH,
        quotas.ALLOW_LENT: TRUTH,
        quotas.IS_ROOT: TRUTH,
        quotas.IGNORE_DEFAULT_TREE: TRUTH,
    },
    RESERVATION: {RESERVATION_ORDER: NUMBER, PRE_ALLOCATION_REQUIRED: TRUTH, SUB_PRIORITY: SUB_PRIORITIES},
}
ANNOTATIONS: dict[Kind, Keys] = {
    POD: {
        MIN_AVAILABLE: COUNT,
        RANK: COUNT,
        WAITING_TIME: DURATION,
        RESERVATION_ALLOCATED: KnownValues(
            is_allocated_text, "expected an object with name and uid", "the pod counts as owner of no reservation"
        ),
    },
    RESERVATION: {
        RESTRICTED_OPTIONS: KnownValues(
            is_restricted_options_text, "expected an object with resources", "a Restricted Reservation is of no use to pods"
        ),
    },
}


class ValueProblems:
    """Reports values that are none, for the objects of one kind. To be made once the scheduler's profiles are."""

    def __init__(self, kind: Kind, context: SchedulerContext) -> None:
        self._kind = kind
        self._context = context
        self._labels = LABELS[kind]
        self._annotations = ANNOTATIONS.get(kind, {})
        self._label_keys, self._annotation_keys = frozenset(self._labels), frozenset(self._annotations)
        self._known: dict[str, dict[str, str]] = {}  # by uid and key: the values that were reported

    def handler(self) -> Handler[Object]:
        return LatestStateHandler(self._look, self._forget)

    def _look(self, obj: Object) -> None:
        metadata = obj.metadata
        if self._label_keys.isdisjoint(metadata.labels) and self._annotation_keys.isdisjoint(metadata.annotations):
            if self._known:
                self._known.pop(metadata.uid, None)
            return
        found = self._wrong(self._labels, metadata.labels) | self._wrong(self._annotations, metadata.annotations)
        known = self._known.pop(metadata.uid, {})
        if found:
            self._known[metadata.uid] = found
        for key, value in found.items():
            if known.get(key) != value:
                self._report(obj, key, value)

    def _forget(self, obj: Object) -> None:
        self._known.pop(obj.metadata.uid, None)

    @staticmethod
    def _wrong(keys: Keys, present: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key in keys if (value := present.get(key)) and not keys[key].matches(value)}

    def _report(self, obj: Object, key: str, value: str) -> None:
        values = self._labels.get(key) or self._annotations[key]
        problem = f"{Malformed(key, values.expected, value)}; {values.instead}"
        log.warning("an object says something that cannot be read", kind=self._kind.kind, object=object_key(obj), problem=problem)
        self._context.metrics.framework.malformed_objects.increment(self._kind.kind)
        self._context.events(next(iter(self._context.profiles))).event(obj, EventText("Warning", EVENT, "Scheduling", problem))
