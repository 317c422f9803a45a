"""The controller of ScheduleExplanations: answers in their status why an object is not scheduled (frameworkext.md §4.2).

On the leader only. Koordinator defines the kind and writes none of it. Whoever creates one asks; the answer is looked at every 5 s while a
pod of it is pending, written when it is another one, and once a minute to show that it still holds. An object is deleted when its time is
over.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.kinds import SCHEDULE_EXPLANATION
from koordsched.clock import parse_rfc3339, rfc3339
from koordsched.cluster.object_store import object_key
from koordsched.cluster.port import NotFound, Patch, Ref
from koordsched.config.duration import NANO, DurationError, parse_nanoseconds
from koordsched.framework.controllers import WorkQueue
from koordsched.scheduler.explanations.rendering import explanation_status, unanswered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.api.koordinator.explanations import ScheduleExplanation, ScheduleExplanationStatus
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.pod_diagnosis import PodDiagnosis
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.explanations.attempts import AttemptDiagnoses
    from koordsched.scheduler.explanations.explainer import Explainer

NAME = "ScheduleExplanation"
"""By which --controller-plugins turns it off."""
LEAST_SECONDS, HEARTBEAT_SECONDS = 5.0, 60.0
DEFAULT_TTL = "24h"
NO_TEMPLATE = "questionObjectTemplate is not supported: questionObjectKey says what is asked about"


class ExplanationController:
    """Keeps the status of every ScheduleExplanation true."""

    def __init__(self, context: SchedulerContext, explainer: Explainer, attempts: AttemptDiagnoses) -> None:
        informer = context.informers.of(SCHEDULE_EXPLANATION)
        informer.required = False  # pods are scheduled without it
        self._context = context
        self._explainer = explainer
        self._attempts = attempts
        self._objects: Mapping[str, ScheduleExplanation] = informer.store
        self._work: WorkQueue[str] = WorkQueue("status of a ScheduleExplanation", LEAST_SECONDS)
        self._asking: dict[str, Sequence[str]] = {}  # by object: the pending pods that it asks about
        informer.add_handler(self)

    async def run(self) -> None:
        """Look at each object when it comes, when its question changes, and as long as its answer may change."""
        for key in self._objects:
            self._work.add(key)
        await self._work.run(self._look)

    async def _look(self, key: str) -> float | None:
        found = self._objects.get(key)
        if found is None:
            self._asks_about(key, ())
            return None
        now = self._context.clock.now()
        ref = Ref(SCHEDULE_EXPLANATION, found.metadata.namespace, found.metadata.name)
        left = self._seconds_left(found, now)
        if left is not None and left <= 0.0:
            with suppress(NotFound):
                await self._context.cluster.delete(ref, uid=found.metadata.uid)
            return None
        answer = [] if not found.spec.question_object_key else self._explainer.answer(found.spec.question_object_key)
        pending = [f"{pod.namespace}/{pod.name}" for pod in answer if not pod.node]
        self._asks_about(key, pending)
        wanted, known = _status(found, answer), found.status
        last = 0.0 if known.last_update_time is None else parse_rfc3339(known.last_update_time)
        if replace(known, last_update_time=None) != wanted or now - last >= HEARTBEAT_SECONDS:
            last = now
            try:
                await self._context.cluster.patch(
                    ref, Patch(_changes(known, replace(wanted, last_update_time=rfc3339(now))), subresource="status")
                )
            except NotFound:
                return None
        again = LEAST_SECONDS if pending or not answer else max(LEAST_SECONDS, last + HEARTBEAT_SECONDS - now)
        return again if left is None else max(min(again, left), LEAST_SECONDS)

    def _seconds_left(self, found: ScheduleExplanation, now: float) -> float | None:
        """Return for how long the object is to stay; None: for ever."""
        ttl, created = found.spec.ttl, found.metadata.creation_timestamp
        try:
            seconds = parse_nanoseconds(DEFAULT_TTL if ttl is None else ttl) / NANO
        except DurationError:
            self._context.report_malformed(found, f"spec.ttl: {ttl!r} is no duration such as 90m; {DEFAULT_TTL} counts")
            seconds = parse_nanoseconds(DEFAULT_TTL) / NANO
        return None if seconds <= 0.0 or created is None else parse_rfc3339(created) + seconds - now

    def _asks_about(self, key: str, pods: Sequence[str]) -> None:
        """Have what the next attempts of these pods find kept, and no more what those of others find."""
        before = self._asking.pop(key, ())
        if pods:
            self._asking[key] = pods
        asked = self._attempts.asked_about
        if before != pods:
            wanted = {pod for of in self._asking.values() for pod in of}
            for gone in [pod for pod in before if pod not in wanted]:
                asked.pop(gone, None)
        for pod in pods:
            asked.setdefault(pod, None)

    # Handler

    def on_add(self, obj: ScheduleExplanation, _arrival: Arrival) -> None:
        self._work.add(object_key(obj))

    def on_update(self, old: ScheduleExplanation, new: ScheduleExplanation) -> None:
        if old.spec != new.spec or old.metadata.uid != new.metadata.uid:
            self._work.add(object_key(new))

    def on_delete(self, obj: ScheduleExplanation, _final_state: FinalState) -> None:
        self._asks_about(object_key(obj), ())


def _status(found: ScheduleExplanation, answer: Sequence[PodDiagnosis]) -> ScheduleExplanationStatus:
    if answer:
        return explanation_status(answer)
    question = found.spec.question_object_key
    return unanswered(f'there is no pod, gang or job "{question}"' if question else NO_TEMPLATE)


def _changes(old: ScheduleExplanationStatus, new: ScheduleExplanationStatus) -> dict[str, Any]:
    """Return the fields that differ, as a merge patch writes them; None for a field that is absent now."""
    before, after = (msgspec.json.decode(msgspec.json.encode(status)) for status in (old, new))
    return {"status": {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}}
