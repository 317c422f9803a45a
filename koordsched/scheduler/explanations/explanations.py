"""Explanations: the parts of one scheduler that say why, made together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.scheduler.explanations.attempts import AttemptDiagnoses
from koordsched.scheduler.explanations.decision_log import DecisionLog
from koordsched.scheduler.explanations.explainer import Explainer
from koordsched.scheduler.explanations.log_queue import LogQueue
from koordsched.scheduler.explanations.rendering import explanation_status
from koordsched.scheduler.explanations.switches import DebugSwitches

if TYPE_CHECKING:
    from koordsched.api.koordinator.explanations import ScheduleExplanationStatus
    from koordsched.config.flag_table import Flags
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.origins import LivePods


class Explanations:
    """`switches` may be changed while the scheduler runs. `queues` are run by it."""

    def __init__(self, context: SchedulerContext, pods: LivePods, flags: Flags) -> None:
        size, workers = flags.debug_diagnosis_queue_size, flags.debug_diagnosis_worker_count
        self.switches = DebugSwitches(flags)
        self.queues = [LogQueue("Filter log", size, workers, context.clock), LogQueue("Diagnosis", size, workers, context.clock)]
        self.decisions = DecisionLog(self.switches, context.cache, self.queues[0])
        self.attempts = AttemptDiagnoses(self.switches, context.cache, context.clock, self.queues[1])
        self.explainer = Explainer(context, pods, self.attempts)

    def explain(self, question: str) -> ScheduleExplanationStatus | None:
        """Answer a question as the status of a ScheduleExplanation does; None: there is no pod, gang or job of that name."""
        answer = self.explainer.answer(question)
        return explanation_status(answer) if answer else None
