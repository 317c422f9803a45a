"""Extension points that are run once a pod: in which order plugins are asked, and what their answers together mean (framework.md §2.1).

Answers are values: None for success, a Status with its plugin otherwise. Called by `profile`, which also says how long each point took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.framework.annotations import noted_annotations
from koordsched.framework.status import SKIPS, Code, Status
from koordsched.framework.timed import (
    TimedBind,
    TimedPermit,
    TimedPostBind,
    TimedPostFilter,
    TimedPreBind,
    TimedPreBindPatch,
    TimedPreEnqueue,
    TimedReserve,
)

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.interface import (
        BindPlugin,
        PermitPlugin,
        Plugin,
        PostBindPlugin,
        PostFilterPlugin,
        PostFilterResult,
        PreBindPatchPlugin,
        PreBindPlugin,
        PreEnqueuePlugin,
        ReservePlugin,
    )
    from koordsched.framework.stopwatch import Stopwatch


class Points(msgspec.Struct, frozen=True):
    """The plugins of these points, each list in running order."""

    pre_enqueue: list[PreEnqueuePlugin]
    post_filter: list[PostFilterPlugin]
    reserve: list[ReservePlugin]
    permit: list[PermitPlugin]
    pre_bind: list[PreBindPlugin]
    pre_bind_patch: list[PreBindPatchPlugin]
    bind: list[BindPlugin]
    post_bind: list[PostBindPlugin]

    def timed(self, watch: Stopwatch) -> Points:
        """Return stand-ins that tell the stopwatch how long each plugin takes."""
        return Points(
            pre_enqueue=[TimedPreEnqueue(plugin, watch) for plugin in self.pre_enqueue],
            post_filter=[TimedPostFilter(plugin, watch) for plugin in self.post_filter],
            reserve=[TimedReserve(plugin, watch) for plugin in self.reserve],
            permit=[TimedPermit(plugin, watch) for plugin in self.permit],
            pre_bind=[TimedPreBind(plugin, watch) for plugin in self.pre_bind],
            pre_bind_patch=[TimedPreBindPatch(plugin, watch) for plugin in self.pre_bind_patch],
            bind=[TimedBind(plugin, watch) for plugin in self.bind],
            post_bind=[TimedPostBind(plugin, watch) for plugin in self.post_bind],
        )


def pre_enqueue(plugins: list[PreEnqueuePlugin], pod: PodInfo, first: str) -> tuple[str, Status] | None:
    """Return the first refusal and its plugin, asking the plugin `first` first."""
    for plugin in sorted(plugins, key=lambda plugin: plugin.name != first) if first else plugins:
        status = plugin.pre_enqueue(pod)
        if status is not None:
            return plugin.name, status
    return None


async def post_filter(
    plugins: list[PostFilterPlugin], state: CycleState, pod: PodInfo, diagnosis: Diagnosis
) -> tuple[PostFilterResult | None, Status | None]:
    """Success and UnschedulableAndUnresolvable stop; Unschedulable goes on, reasons add up; an error replaces all."""
    reasons: list[str] = []
    result: PostFilterResult | None = None
    for plugin in plugins:
        found, status = await plugin.post_filter(state, pod, diagnosis)
        if status is None:
            return found, None
        if not status.rejected:
            return None, status.with_plugin(plugin.name)
        reasons += status.reasons
        result = found if found is not None else result
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            break
    return result, Status(Code.UNSCHEDULABLE, tuple(reasons))


def foreseen_post_filter(plugins: list[PostFilterPlugin], pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
    """Return what `post_filter` would answer if no plugin could help; None when one of them cannot say."""
    reasons: list[str] = []
    for plugin in plugins:
        status = plugin.foreseen(pod, diagnosis)
        if status is None:
            return None
        reasons += status.reasons
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            break
    return Status(Code.UNSCHEDULABLE, tuple(reasons))


def reserve(plugins: list[ReservePlugin], state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
    """Stop at the first answer that is not success."""
    for plugin in plugins:
        status = plugin.reserve(state, pod, node_name)
        if status is not None:
            return _named(status, plugin, f'running Reserve plugin "{plugin.name}": ')
    return None


def permit(plugins: list[PermitPlugin], state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, dict[str, float]]:
    """Return (refusal or error, {}) or (None, plugins to wait for with their timeouts in seconds)."""
    waits: dict[str, float] = {}
    for plugin in plugins:
        status, timeout = plugin.permit(state, pod, node_name)
        if status is None:
            continue
        if status.code is not Code.WAIT:
            return _named(status, plugin, f'running Permit plugin "{plugin.name}": '), {}
        waits[plugin.name] = timeout
    return None, waits


def pre_bind_pre_flight(
    plugins: list[PreBindPlugin], state: CycleState, pod: PodInfo, node_name: str
) -> tuple[list[PreBindPlugin], Status | None]:
    """Ask which plugins have something to do for this pod."""
    work = []
    for plugin in plugins:
        status = plugin.pre_bind_pre_flight(state, pod, node_name)
        if status is None:
            work.append(plugin)
        elif status.code is not SKIPS:
            return [], _named(status, plugin, f'running PreBindPreFlight "{plugin.name}": ')
    return work, None


async def pre_bind(plugins: list[PreBindPlugin], state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
    """Stop at the first answer that is not success."""
    for plugin in plugins:
        status = await plugin.pre_bind(state, pod, node_name)
        if status is not None:
            return _named(status, plugin, f'running PreBind plugin "{plugin.name}": ')
    return None


async def pre_bind_patch(plugins: list[PreBindPatchPlugin], state: CycleState, pod: PodInfo) -> Status | None:
    """Write what PreBind has noted by the first plugin that does not skip. Where there is none it is lost, which the configuration was
    warned of (frameworkext.md §1.1)."""
    annotations = noted_annotations(state)
    for plugin in plugins if annotations else ():
        status = await plugin.patch(pod, annotations)
        if status is None:
            return None
        if status.code is not SKIPS:
            return _named(status, plugin, f'running PreBind plugin "{plugin.name}": ')
    return None


async def bind(plugins: list[BindPlugin], state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
    """Bind by the first plugin that does not skip."""
    for plugin in plugins:
        status = await plugin.bind(state, pod, node_name)
        if status is None:
            return None
        if status.code is not SKIPS:
            return _named(status, plugin, f'running Bind plugin "{plugin.name}": ')
    return Status(Code.ERROR, ("no bind plugin was willing to bind the pod",))


def _named(status: Status, plugin: Plugin, context: str) -> Status:
    """Name the plugin in its answer; an error also says what was being run."""
    if status.rejected:
        return status.with_plugin(plugin.name)
    return Status(status.code, (context + status.message,), plugin.name)
