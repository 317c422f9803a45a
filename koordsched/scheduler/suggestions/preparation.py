"""Preparation: what the first pod of its kind would cost at once is done in steps, before it is asked what becomes of such a pod.

Counting the pods that a new constraint selects goes over all classes of pods of the cluster, for instance: a millisecond for each of the
constraints, for which a scheduling cycle beside an explanation would have to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.interface import Plugin
    from koordsched.slices import Slices

STEP_SECONDS = 0.001
"""What a step of a plugin takes."""


class Preparation:
    """Lets plugins prepare for the pods of one explanation, and holds what they have prepared."""

    def __init__(self, plugins: Iterable[Plugin], work: Slices) -> None:
        self._plugins = plugins
        self._work = work
        self._held: list[object] = []

    async def run(self, pod: PodInfo) -> None:
        """Prepare for a pod, with pauses."""
        for plugin in self._plugins:
            steps = plugin.prepare(pod)
            while True:
                try:
                    next(steps)
                except StopIteration as done:
                    self._held.append(done.value)
                    break
                await self._work.pause(STEP_SECONDS)


def looks_at_pods(spec: dict[str, Any]) -> bool:
    """Answer whether a pod with this spec, as JSON has it, is kept near to or apart from other pods."""
    affinity = spec.get("affinity") or {}
    return bool(spec.get("topologySpreadConstraints") or affinity.get("podAffinity") or affinity.get("podAntiAffinity"))
