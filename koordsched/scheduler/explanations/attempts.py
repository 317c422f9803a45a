"""AttemptDiagnoses: the diagnosis of an attempt that failed, for the log of --debug-diagnosis and for ScheduleExplanations.

Which nodes refuse the pod is taken from the columns before PostFilter, which awaits; what PostFilter found comes with a `PreemptionRecord`
that the preemption engine fills. `is_on` says whether anything of it is wanted, so that other failures cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.framework.pod_diagnosis import FailedNodes, PodDiagnosis, PreemptionRecord, names_of
from koordsched.log import Verbatim, get_logger
from koordsched.scheduler.explanations.rendering import diagnosis_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.clock import Clock
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.interface import GroupRefusal, GroupTurnPlugin, Question
    from koordsched.scheduler.explanations.log_queue import LogQueue
    from koordsched.scheduler.explanations.switches import DebugSwitches

log = get_logger(__name__)


class AttemptDiagnoses:
    """Takes and passes on diagnoses. switches: whether they are logged. queue: where, unless that is to block."""

    def __init__(self, switches: DebugSwitches, cache: Cache, clock: Clock, queue: LogQueue) -> None:
        self.switches = switches
        self.queue = queue
        self.asked_about: dict[str, PreemptionRecord | None] = {}
        """By pod key, for each pod about which a ScheduleExplanation asks: what its last attempt to make room found."""
        self._cache = cache
        self._clock = clock

    @property
    def is_on(self) -> bool:
        return self.switches.diagnosis or bool(self.asked_about)

    def begin(self, pod: PodInfo, diagnosis: Diagnosis, group: GroupTurnPlugin | None) -> PodDiagnosis:
        """Take the diagnosis of a pod that found no node, and have PostFilter's evictions noted."""
        diagnosis.preemption = PreemptionRecord()
        return of_pod(pod, diagnosis, None if group is None else group.question_of(pod), self._cache, self._clock.now())

    def end(self, found: PodDiagnosis, pod: PodInfo, diagnosis: Diagnosis, post_filter: str) -> None:
        """Pass the diagnosis on, after PostFilter said this."""
        record = self._take_record(diagnosis, post_filter)
        if pod.key in self.asked_about:
            self.asked_about[pod.key] = record
        if self.switches.diagnosis:
            self._write(pod.key, replace(found, preemption=record))

    def end_group(self, group: GroupDiagnosis, members: Iterable[PodInfo], others: str, post_filter: str) -> None:
        """Pass on the diagnoses of all members of a group whose turn was undone. others: why those fail that lack nothing themselves."""
        record = self._take_record(group.diagnosis, post_filter) if group.diagnosis is not None else None
        for pod in members:
            found, key = group.of(pod, others, self._clock.now()), pod.key
            if key in self.asked_about:
                self.asked_about[key] = record
            if self.switches.diagnosis:
                self._write(key, replace(found, preemption=record) if found.is_root_cause else found)

    def _take_record(self, diagnosis: Diagnosis, post_filter: str) -> PreemptionRecord | None:
        record, diagnosis.preemption = diagnosis.preemption, None
        if record is None or not record.plugin:
            return None
        record.message = "" if record.nominated else post_filter
        return record

    def _write(self, pod: str, found: PodDiagnosis) -> None:
        if self.switches.blocking:
            log.info(Verbatim(diagnosis_line(found)))
        else:
            self.queue.put(pod, lambda: [diagnosis_line(found)])


class GroupDiagnosis:
    """Why the turn of a group was undone. To be made right after that, while the columns still say it; has evictions noted."""

    def __init__(
        self,
        question: Question | None,
        refusal: GroupRefusal,
        diagnosis: Diagnosis | None,
        *,
        slots: Mapping[str, int],
        cache: Cache,
    ) -> None:
        """diagnosis: of a member that fits nowhere. slots: by node, how many members had a place there, or would find one."""
        self.diagnosis = diagnosis
        self._question = question
        self._refusal = refusal
        self._slots = slots
        self._failed: tuple[FailedNodes, ...] = ()
        self._pre_filter = ""
        if diagnosis is not None:
            self._failed = failed_nodes(diagnosis, cache)
            self._pre_filter = "" if diagnosis.pre_filter is None else diagnosis.pre_filter.message
            diagnosis.preemption = PreemptionRecord()

    def of(self, pod: PodInfo, others: str, now: float) -> PodDiagnosis:
        """Return the diagnosis of a member."""
        refusal, question = self._refusal, self._question
        is_root_cause = refusal.member in {"", pod.key}
        found = named(pod, question, now)
        if not is_root_cause:
            return replace(found, is_root_cause=False, message=others, pre_filter_message=others)
        return replace(
            found,
            message=refusal.message,
            pre_filter_message=self._pre_filter if self.diagnosis is not None else refusal.message,
            placed_members=refusal.placed,
            slots=self._slots,
            failed_nodes=self._failed,
        )


def of_pod(pod: PodInfo, diagnosis: Diagnosis, question: Question | None, cache: Cache, now: float) -> PodDiagnosis:
    """Return what a diagnosis that was just made says of the pod."""
    return replace(
        named(pod, question, now),
        message=diagnosis.message,
        pre_filter_message="" if diagnosis.pre_filter is None else diagnosis.pre_filter.message,
        failed_nodes=failed_nodes(diagnosis, cache),
    )


def failed_nodes(diagnosis: Diagnosis, cache: Cache) -> tuple[FailedNodes, ...]:
    """Return by name which nodes refuse the pod."""
    return tuple(FailedNodes(status, names_of(rows, cache.infos)) for status, rows in diagnosis.rows_by_status())


def named(pod: PodInfo, question: Question | None, now: float) -> PodDiagnosis:
    """Return a diagnosis that says nothing yet but which pod it is about."""
    metadata = pod.pod.metadata
    own = pod.key if pod.reservation is None else pod.reservation.metadata.name
    return PodDiagnosis(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=pod.uid,
        question=own if question is None else question.group,
        timestamp=now,
        nominated_node=pod.pod.status.nominated_node_name,
        topology_key="" if question is None else question.topology_key,
    )
