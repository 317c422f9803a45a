"""Selection: which node a pod goes to (framework.md §5), or why to none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.sampling import Sampler, nodes_to_find

if TYPE_CHECKING:
    import random

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.profile import Profile
    from koordsched.framework.shapes import Shape
    from koordsched.queue.nominator import Nominator

Overruled = dict[int, tuple[int, int]]  # row -> (filter, code) that nominated pods cause


class Selection:
    """Finds nodes for pods. Reads the cache as it is: nothing may await between finding and assuming."""

    def __init__(self, cache: Cache, nominator: Nominator, random: random.Random, percentage_of_nodes_to_score: int) -> None:
        self._cache = cache
        self._nominator = nominator
        self._random = random
        self._percentage = percentage_of_nodes_to_score
        self._sampler = Sampler(cache)

    def find(self, profile: Profile, pod: PodInfo) -> tuple[CycleState, str | Diagnosis]:
        """Return the cycle's state with the node's name, or with the reasons why there is none. PluginError when a plugin failed."""
        watch = profile.watch
        shape = profile.shapes.find(pod)
        watch.filtered_at = watch.perf() if shape.pre_filtered.refusal is None else 0.0
        outcome = self._choose(profile, shape, pod)
        state = shape.state.clone()
        if watch.recording:
            state.sampled = True
        return state, outcome

    def _choose(self, profile: Profile, shape: Shape, pod: PodInfo) -> str | Diagnosis:
        if self._cache.table.live_count == 0:
            return Diagnosis.without_nodes()
        overruled = self._overruled(profile, shape, pod) if len(self._nominator) else {}
        nominated = self._nominated_row(shape, pod, overruled)
        if nominated is not None:
            return self._name(nominated)
        if shape.feasible_count <= len(overruled):
            return profile.shapes.diagnose(shape, pod, overruled)
        return self._name(self._best(profile, shape, pod, overruled))

    def _name(self, row: int) -> str:
        info = self._cache.infos[row]
        if info is None:
            raise LookupError(f"row {row} was chosen but holds no node")
        return info.name

    def _overruled(self, profile: Profile, shape: Shape, pod: PodInfo) -> Overruled:
        """Ask again about the nodes where pods of at least this priority are nominated, as if those were there already."""
        found: Overruled = {}
        for name, others in self._nominator.blocking(pod).items():
            node = self._cache.node(name)
            if node is None or shape.feasible_count == 0 or not shape.evaluation.is_feasible(node.row):
                continue
            with self._cache.what_if(node, add=others):
                refusal = profile.shapes.ask(shape, pod, node.row)
            if refusal is not None:
                found[node.row] = refusal
        return found

    def _nominated_row(self, shape: Shape, pod: PodInfo, overruled: Overruled) -> int | None:
        """Return the row of the node that was made free for this pod, if the pod fits there: it is then the only candidate."""
        name = pod.pod.status.nominated_node_name
        node = self._cache.node(name) if name else None
        if node is None or shape.feasible_count == 0 or node.row in overruled or not shape.evaluation.is_feasible(node.row):
            return None
        return node.row

    def _best(self, profile: Profile, shape: Shape, pod: PodInfo, overruled: Overruled) -> int:
        """Return a row with the highest total, one of several by chance. A single feasible node is taken without scoring."""
        evaluation = shape.evaluation
        if overruled:
            profile.shapes.overrule(shape, list(overruled))
        try:
            wanted = nodes_to_find(self._cache.table.live_count, self._share(profile))
            if wanted is not None:
                return self._sampler.choose(profile, shape, pod, (wanted, self._random))
            if evaluation.feasible_count == 1:
                return int(evaluation.feasible_rows()[0])
            profile.shapes.rank(shape, pod)
            best, ties = evaluation.best()
            return evaluation.pick(best, self._random.randrange(ties) if ties > 1 else 0)
        finally:
            if overruled:
                profile.shapes.reinstate(shape, list(overruled))

    def _share(self, profile: Profile) -> int:
        own = profile.percentage_of_nodes_to_score
        return self._percentage if own is None else own
