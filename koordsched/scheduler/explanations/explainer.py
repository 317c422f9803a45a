"""Explainer: why a pod, a gang or a job is not scheduled, as of now and without an attempt (frameworkext.md §4.2).

Whether a pod was tried, is held back, or waits for others, there is an answer: the columns of its shape say which nodes refuse it now, the
queue what its condition says. What an attempt to make room found is known of the last attempt alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.clock import rfc3339
from koordsched.framework.pod_diagnosis import PodDiagnosis
from koordsched.queue.queued_pod import QueuePlace
from koordsched.scheduler.explanations.attempts import failed_nodes, named
from koordsched.scheduler.explanations.owned_pods import OwnedPods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.core import Pod
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.profile import Profile
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.explanations.attempts import AttemptDiagnoses
    from koordsched.scheduler.origins import LivePods


class Explainer:
    """Answers about the pods of one scheduler. On its loop; changes nothing that decisions depend on."""

    def __init__(self, context: SchedulerContext, pods: LivePods, attempts: AttemptDiagnoses) -> None:
        self._context = context
        self._pods = pods
        self._attempts = attempts
        self._owned: OwnedPods | None = None  # once a job was asked about

    def pods_of(self, question: str) -> Sequence[str]:
        """Return the keys of the pods that a question is about: a pod (namespace/name), a gang or a group of gangs (its id), or a job
        (namespace/name of what owns pods); none when there is nothing of that name. The first that is no pod and no gang costs O(pods).
        """
        if self._pods.at(question) is not None:
            return (question,)
        for profile in self._context.profiles.values():
            members = () if profile.group_turn is None else profile.group_turn.members_of(question)
            if members:
                return members
        if self._owned is None:
            self._owned = OwnedPods()
            self._context.informers.of(POD).add_handler(self._owned)
        return self._owned.of(question)

    def answer(self, question: str) -> list[PodDiagnosis]:
        """Return the diagnoses of the pods that the question is about, by name; none when there is nothing of that name."""
        stored = ((key, self._pods.at(key)) for key in sorted(self.pods_of(question)))
        return [self.diagnose(key, pod) for key, pod in stored if pod is not None]

    def diagnose(self, key: str, stored: Pod) -> PodDiagnosis:
        """Return what is known of one pod of the cluster now."""
        context, uid = self._context, stored.metadata.uid
        found = PodDiagnosis(
            namespace=stored.metadata.namespace,
            name=stored.metadata.name,
            uid=uid,
            question=key,
            timestamp=context.clock.now(),
            node=stored.spec.node_name,
        )
        state = context.cache.pods.get(uid)
        if not found.node and state is not None:
            waiting = context.waiting_pods.get(uid)
            if waiting is None:
                return replace(found, node=state.node.name, waiting=f"is being bound to node {state.node.name}")
            text = f"waiting on Permit for {', '.join(sorted(waiting.pending_plugins))} since {rfc3339(waiting.since)}"
            return replace(found, node=state.node.name, message=text, waiting=text)
        if found.node:
            return found
        profile = context.profiles.get(stored.spec.scheduler_name)
        if profile is None:
            return replace(found, message=f"scheduler {stored.spec.scheduler_name!r} is responsible for it, which this one is not")
        info = context.queue.get(key) or next((info for info in context.queue.in_flight if info.uid == uid), None)
        if info is None:
            return self._unknown_to_the_queue(found, key, stored)
        return self._of_pending(found, profile, info)

    def _unknown_to_the_queue(self, found: PodDiagnosis, key: str, stored: Pod) -> PodDiagnosis:
        if self._context.late_lists.is_held(key):
            return replace(found, message=f"it waits for the first list of {', '.join(self._context.informers.unsynced)}")
        try:
            PodInfo(stored)
        except QuantityError as mistake:
            return replace(found, message=str(mistake))
        return replace(found, message="it is being deleted" if stored.metadata.deletion_timestamp else "it is not in the queue")

    def _of_pending(self, found: PodDiagnosis, profile: Profile, info: QueuedPodInfo) -> PodDiagnosis:
        pod, group = info.pod_info, profile.group_turn
        question = None if group is None else group.question_of(pod)
        blocking = "" if group is None or question is None else group.blocking_member(pod)
        tried = not info.gated or (group is not None and info.gating_plugin == group.name and bool(info.last_message))  # with its group
        message = info.last_message if tried else info.gating_message
        known = replace(
            named(pod, question, found.timestamp),
            message=message,
            waiting=self._waiting(info),
            nominated_node=self._context.queue.nominator.node_of(pod.uid) or found.nominated_node,
            preemption=self._attempts.asked_about.get(pod.key),
        )
        if not tried:
            return replace(known, pre_filter_message=message, is_root_cause=blocking in {"", pod.key})
        diagnosis = self._why(profile, info)
        if diagnosis is None:
            waits = message or f"some node takes it; it waits for its turn ({info.place.value})"
            return replace(known, message=waits, is_root_cause=blocking in {"", pod.key})
        return replace(
            known,
            message=message or diagnosis.message,
            is_root_cause=blocking in {"", pod.key},
            pre_filter_message="" if diagnosis.pre_filter is None else diagnosis.pre_filter.message,
            failed_nodes=failed_nodes(diagnosis, self._context.cache),
        )

    def _waiting(self, info: QueuedPodInfo) -> str:
        """Return what a pending pod waits for."""
        node, since = self._context.queue.nominator.node_of(info.uid), f"since {rfc3339(info.since)}"
        if node and (leaving := self._leaving(node, info.pod_info.priority)):
            return f"waits for its victims on node {node} to go: {', '.join(leaving)}"
        match info.place:
            case QueuePlace.GATED:
                return f"is held back by {info.gating_plugin} {since}"
            case QueuePlace.BACKOFF:
                until = f", until {rfc3339(info.backoff_expiry)}" if info.backoff_expiry else ""
                return f"backs off after attempt {info.attempts}{until}"
            case QueuePlace.UNSCHEDULABLE:
                return f"waits {since} for a change of the cluster that may help it"
            case QueuePlace.ACTIVE:
                return f"waits {since} for its turn"
            case QueuePlace.IN_FLIGHT:
                return "is being tried"
        return ""

    def _leaving(self, node: str, priority: int) -> list[str]:
        """Return the pods of lower priority that are being deleted on a node."""
        found = self._context.cache.node(node)
        pods = () if found is None else found.pods.values()
        return sorted(each.key for each in pods if each.pod.metadata.deletion_timestamp is not None and each.priority < priority)

    def _why(self, profile: Profile, info: QueuedPodInfo) -> Diagnosis | None:
        """Return why no node takes the pod now; None where one does, or an attempt would be needed to find out."""
        if info.admission_plugin:
            refused = profile.probe_admission(info.admission_plugin, info.pod_info)[1]
            if refused is not None:
                return refused
        return profile.shapes.why_infeasible(info.pod_info)
