"""Admission: what plugins say about a pod alone, before any node is looked at (`interface.AdmissionPlugin`).

An admission plugin is one of the profile's PreFilter plugins: of several refusals that one counts which PreFilter, run plugin by plugin in
the profile's order, would answer (framework.md §2.1). Its answers may differ from pod to pod, so nothing of them is kept in a shape, and a
refused pod leaves the shapes as they are (docs/decisions/0011-admission-beside-shapes.md).

Called by the scheduling cycle, and by the queue before it moves a pod that admission refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from koordsched.config.extension_points import PRE_FILTER
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import UNSIGNABLE, AdmissionPlugin
from koordsched.framework.status import SKIPS, Code, PluginError, Status
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.interface import Plugin
    from koordsched.framework.shapes import Shapes
    from koordsched.framework.timings import CycleTimings
    from koordsched.metrics import CounterChild

log = get_logger(__name__)


class _Asked(NamedTuple):
    """An admission plugin, and what is known of it before the first pod."""

    plugin: AdmissionPlugin
    admit: Callable[[PodInfo], Status | None]  # its method: looked up once, not once a pod
    evaluations: CounterChild  # counts calls that it did not skip
    earlier: int  # how many PreFilter plugins of a shape stand before it


class Admission:
    """The admission plugins of one profile, of which there is at least one."""

    def __init__(self, plugins: Sequence[Plugin], shapes: Shapes, cache: Cache, timings: CycleTimings) -> None:
        """plugins: all that stand at preFilter, in order."""
        self._shapes = shapes
        self._cache = cache
        self._timings = timings
        self._place = {name: place for place, name in enumerate(shapes.pre_filter_names)}  # of each PreFilter plugin of a shape
        self._asked = _in_order(plugins, self._place, timings)
        self._by_name = {asked.plugin.name: asked.plugin for asked in self._asked}
        self._grouping = [asked.plugin for asked in self._asked if type(asked.plugin).admit_together is not AdmissionPlugin.admit_together]
        self.plugins = frozenset(self._by_name)
        self.limits_groups = bool(self._grouping)
        """Whether any plugin says of pods together what it does not say of each (`refusal_together`)."""

    # The scheduling cycle

    def refusal(self, pod: PodInfo) -> Diagnosis | None:
        """Return why an admission plugin refuses the pod; None if none does, or if PreFilter of the pod's shape is what refuses it.

        PluginError if one fails. In the order of plugins the first UnschedulableAndUnresolvable or error ends PreFilter; of other refusals
        the last one counts.
        """
        timings = self._timings
        started = timings.perf()
        found: tuple[_Asked, Status] | None = None
        ended = False
        for asked in self._asked:
            plugin, admit, evaluations, _ = asked
            status = timings.timed(plugin.name, PRE_FILTER.label, admit)(pod) if timings.recording else admit(pod)
            if status is None:
                evaluations.count += 1
                continue
            if status.code is SKIPS:
                continue
            evaluations.count += 1
            found = (asked, status)
            if plugin.before_pre_filter or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE or not status.rejected:
                ended = True
                break
        if found is None or self._shape_refuses(pod, found[0], ended=ended):
            return None
        asked, status = found
        name = asked.plugin.name
        if not status.rejected:
            text = status.message if asked.plugin.before_pre_filter else f'running PreFilter plugin "{name}": {status.message}'
            raise PluginError(Status(status.code, (text,), name), PRE_FILTER.label)
        timings.filtered_at = 0.0  # Filter does not run in this cycle
        timings.ended(PRE_FILTER.label, status, started)
        return self._diagnosis(asked.plugin, pod, status)

    def refusal_together(self, pods: Sequence[PodInfo]) -> tuple[int, Diagnosis] | None:
        """Return which of these pods is the first that there is no room for beside those before it, and why; None: none is known.

        PluginError if a plugin fails.
        """
        for plugin in self._grouping:
            found = plugin.admit_together(pods)
            if found is None:
                continue
            index, status = found
            if not status.rejected:
                text = f'running PreFilter plugin "{plugin.name}": {status.message}'
                raise PluginError(Status(status.code, (text,), plugin.name), PRE_FILTER.label)
            return index, self._diagnosis(plugin, pods[index], status)
        return None

    def _shape_refuses(self, pod: PodInfo, asked: _Asked, *, ended: bool) -> bool:
        """Answer whether the refusal that counts is that of another PreFilter plugin.

        ended: PreFilter ends with the admission plugin; else it goes on, and what comes later counts.
        """
        if asked.plugin.before_pre_filter:
            return False
        refusal = self._shapes.pre_filter_refusal(pod, asked.earlier if ended else None)
        if refusal is None:
            return False
        if ended or refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return self._place[refusal.plugin] >= asked.earlier

    def _diagnosis(self, plugin: AdmissionPlugin, pod: PodInfo, status: Status) -> Diagnosis:
        """Return the diagnosis of a refusal; PostFilter plugins may simulate evictions, for which the pod's shape is prepared then."""
        diagnosis = Diagnosis.of_pre_filter(self._cache.table.live_count, frozenset({plugin.name}), status.with_plugin(plugin.name))
        diagnosis.admission_plugin = plugin.name
        diagnosis.others_may_preempt = plugin.others_may_preempt
        diagnosis.of_shape = False
        diagnosis.simulate = partial(self._shapes.simulation_for, pod)
        return diagnosis

    def admits(self, pod: PodInfo, besides: str = "") -> bool:
        """Answer, beside the cycle, whether all admission plugins but the named one let the pod pass: nothing is counted or timed."""
        answers = (asked.admit(pod) for asked in self._asked if asked.plugin.name != besides)
        return all(status is None or status.code is SKIPS for status in answers)

    # The queue

    def key(self, plugin: str, pod: PodInfo) -> Hashable | None:
        """Return the key under which this plugin lets the pod wait; None if it names none, or fails."""
        try:
            return self._by_name[plugin].admission_key(pod)
        except Exception:
            log.exception("could not find out under which key a pod waits", pod=pod.key, plugin=plugin)
            return None

    def signature(self, plugin: str, pod: PodInfo) -> Hashable:
        """Return what all pods have in common that the plugin treats like this one, their key, shape and priority aside."""
        try:
            signature = self._by_name[plugin].sign_admission(pod)
        except Exception:
            log.exception("could not find out what an admission plugin reads of a pod", pod=pod.key, plugin=plugin)
            signature = UNSIGNABLE
        return ("uid", pod.uid) if signature is UNSIGNABLE else signature

    def still_refused(self, plugin: str, pod: PodInfo) -> Diagnosis | None:
        """Return why this plugin refuses the pod now; None if it does not, or fails: an attempt finds out then."""
        try:
            status = self._by_name[plugin].admit(pod)
        except Exception:
            log.exception("could not find out whether a waiting pod would be admitted", pod=pod.key, plugin=plugin)
            return None
        return None if status is None or not status.rejected else self._diagnosis(self._by_name[plugin], pod, status)


def _in_order(plugins: Iterable[Plugin], place: dict[str, int], timings: CycleTimings) -> list[_Asked]:
    """Return the admission plugins in the order in which they are asked: first those that stand before PreFilter."""
    found: list[_Asked] = []
    earlier = 0
    for plugin in plugins:
        if isinstance(plugin, AdmissionPlugin):
            evaluations = timings.evaluations(plugin.name, PRE_FILTER.label)
            found.append(_Asked(plugin, plugin.admit, evaluations, 0 if plugin.before_pre_filter else earlier))
        earlier += plugin.name in place  # of a plugin that is both, admission comes first
    return sorted(found, key=lambda asked: not asked.plugin.before_pre_filter)
