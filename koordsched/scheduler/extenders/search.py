"""A pod's way to a node when extenders have a say in it: find, ask them, look again, choose (framework.md §5 and §8).

The world may change while an extender thinks: nodes go, room is taken by pods of other schedulers or given back, the pod itself is deleted
or updated. Why the outcome is right all the same:

- No other pod is scheduled meanwhile: the scheduling loop awaits `find`. Whatever changes comes from the cluster and has its event.
- After the last answer nothing is awaited any more until the pod is assumed. All that extenders left is looked at again then, as the pod
  and the nodes are now: a node that is gone or does not fit any more is not chosen, and a pod that is gone is not placed.
- A node that became feasible meanwhile was not asked about and is not chosen. If that leaves none, the pod was refused by `Extender`, whom
  every event may help: what made the node feasible is an event that the pod missed in flight, so it is tried again.
- What is found for one pod is not taken for its shape: an extender sees the pod itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.diagnosis import Diagnosis, counted
from koordsched.framework.handle import EXTENDER, ExtenderError
from koordsched.framework.row_refusals import RowRefusals
from koordsched.framework.status import Code, Status
from koordsched.log import get_logger
from koordsched.scheduler.extenders.chain import Left
from koordsched.scheduler.failure import refreshed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Node, Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.profile import Profile
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.extenders.chain import Chain
    from koordsched.scheduler.selection import Selection, View

log = get_logger(__name__)

NOT_ASKED_ABOUT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), EXTENDER)
Found = tuple["CycleState", "str | Diagnosis"]


class Search:
    """Finds nodes for pods that extenders want to see."""

    def __init__(self, selection: Selection, chain: Chain, cache: Cache, pods: Mapping[str, Pod]) -> None:
        """pods: the watched pods by key, as the cluster has them."""
        self._selection = selection
        self._chain = chain
        self._cache = cache
        self._pods = pods

    def wants(self, pod: PodInfo) -> bool:
        """Answer whether some extender has a say in where the pod goes."""
        return self._chain.wants(pod)

    async def find(self, profile: Profile, info: QueuedPodInfo) -> Found | None:
        """Return the cycle's state with the node's name, or with the reasons why there is none; None: the pod has gone or is bound.

        Nothing may be awaited between this and assuming the pod; `info` has its latest state. ExtenderError, PluginError.
        """
        watch = profile.watch
        started = watch.perf()
        view = self._selection.look(profile, info.pod_info)
        watch.filtered_at = watch.perf() if view.shape.pre_filtered.refusal is None else 0.0
        watch.interrupt(started)
        if self._cache.table.live_count == 0:
            return view.shape.state.clone(), Diagnosis.without_nodes()
        if view.hopeless:
            return view.shape.state.clone(), profile.shapes.diagnose(view.shape, info.pod_info, view.overruled)
        left, scores = await self._ask(profile, info.pod_info, view)
        if not self._refresh(profile, info):
            return None
        resumed = watch.perf()
        view = self._selection.look(profile, info.pod_info)
        found = self._choose(profile, info.pod_info, view, (left, scores))
        watch.resume(resumed)
        return view.shape.state.clone(), found

    # Asking

    async def _ask(self, profile: Profile, pod: PodInfo, view: View) -> tuple[Left, dict[str, int]]:
        """Return what the extenders leave of the feasible nodes, and what they add to whose total."""
        nodes = self._nodes(self._selection.sample(profile, view).tolist())
        if view.nominated is not None:
            left = await self._ask_nominated(pod, self._nodes([view.nominated]))
            if left.remaining:
                return left, {}
        left = await self._chain.filter(pod.pod, nodes)
        if len(left.remaining) <= 1:
            return left, {}  # there is nothing to choose
        remaining = set(left.remaining)
        return left, await self._chain.prioritize(pod.pod, [node for node in nodes if node.metadata.name in remaining])

    async def _ask_nominated(self, pod: PodInfo, nodes: list[Node]) -> Left:
        """Ask about the nominated node alone; an extender that fails leaves it one node among the others."""
        try:
            return await self._chain.filter(pod.pod, nodes)
        except ExtenderError as error:
            log.warning("an extender failed on the nominated node", pod=pod.key, err=str(error))
            return Left([], {})

    def _nodes(self, rows: Iterable[int]) -> list[Node]:
        infos = (self._cache.infos[row] for row in rows)
        return [info.node for info in infos if info is not None and info.node is not None]

    # Looking again

    def _refresh(self, profile: Profile, info: QueuedPodInfo) -> bool:
        """Take over the pod's latest state; False when there is nothing left to place."""
        stored = self._pods.get(info.key)
        if stored is None or stored.metadata.uid != info.uid or stored.spec.node_name:
            return False
        if stored.metadata.resource_version != info.pod_info.pod.metadata.resource_version:
            info.pod_info = refreshed(info.pod_info, stored, profile)
        info.pod_info.shape = profile.shapes.key(info.pod_info)  # signatures may have changed meanwhile
        return True

    def _choose(self, profile: Profile, pod: PodInfo, view: View, answers: tuple[Left, dict[str, int]]) -> str | Diagnosis:
        left, scores = answers
        bonus = {row: scores.get(name, 0) for name, row in self._rows(left.remaining) if view.allows(row)}
        if not bonus:
            return self._why_none(profile, pod, view, left.refused)
        row = next(iter(bonus)) if len(bonus) == 1 else self._selection.best_among(profile, pod, view, bonus)
        return self._selection.name(row)

    def _rows(self, names: Iterable[str]) -> list[tuple[str, int]]:
        found = ((name, self._cache.node(name)) for name in names)
        return [(name, node.row) for name, node in found if node is not None]

    def _why_none(self, profile: Profile, pod: PodInfo, view: View, refused: Mapping[str, Status]) -> Diagnosis:
        """Join what filters say of nodes with what extenders say of those that filters let pass."""
        of_filters = profile.shapes.refusals(view.shape, pod, view.overruled)
        if of_filters.pre_filter is not None:
            return of_filters
        of_extenders = RowRefusals.of({row: refused[name] for name, row in self._rows(refused) if view.allows(row)})
        refusals = [*of_filters.refusals, *counted(of_extenders)]

        def status_of(row: int) -> Status | None:
            return of_extenders.get(row) or of_filters.status_of(row) or NOT_ASKED_ABOUT

        found = Diagnosis(of_filters.total_nodes, of_filters.plugins | {EXTENDER}, refusals, status_of)
        found.of_shape = False
        found.exceptions = of_filters.exceptions.joined(of_extenders)
        found.simulation = of_filters.simulation
        return found
