"""The scope of a group's limit: victims wherever they run, for a pod that its group has no room for (elasticquota.md §10, DEV-4).

Where no single node has victims that release enough, the least important ones of the group are chosen on any nodes: all possible victims
are taken away, then put back as long as the limit is kept - first those whose eviction violates a disruption budget, then the others, each
the most important first. The pod then needs one node on which it fits once the victims there are gone. Nodes without victims are tried
first, in the order of nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koordsched._core.fit import filter_fit
from koordsched.framework.preemption.candidates import Released, refusal_of
from koordsched.framework.preemption.victims_index import started_at
from koordsched.framework.row_refusals import NO_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle
    from koordsched.framework.preemption.candidates import CandidateFinder
    from koordsched.framework.preemption.estimate import Preemptor
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.status import Status


class LimitRoom(NamedTuple):
    """The pod's node, and the victims by node, the most important first."""

    node: str
    victims: Mapping[str, Sequence[PodInfo]]


class LimitSearch:
    """The search for one pod. Nothing awaits."""

    def __init__(self, handle: Handle, finder: CandidateFinder, preemptor: Preemptor) -> None:
        self._handle = handle
        self._cache = handle.cache
        self._finder = finder
        self._preemptor = preemptor

    def room(self, to_release: Mapping[str, int], tries: int) -> LimitRoom | Status | None:
        """Return the node and the victims, or the refusal of the nodes; None if all possible victims release too little. PluginError.

        to_release: what victims have to release together, by resource: cpu in milli, everything else in units. tries: how many nodes are
        tried at most.
        """
        possible = self._possible()
        released = Released(to_release, [pod for pod, _ in possible])
        if not possible or not released.enough:
            return None
        violating = self._finder.budgets.violations([pod.pod for pod, _ in possible])
        victims: dict[int, list[tuple[int, PodInfo]]] = {}
        for i in sorted(range(len(possible)), key=lambda i: not violating[i]):
            pod, row = possible[i]
            if released.can_spare(pod):
                released.put_back(pod)
            else:
                victims.setdefault(row, []).append((i, pod))
        chosen = {row: [pod for _, pod in sorted(found, key=lambda pair: pair[0])] for row, found in victims.items()}
        node, refused = self._node(chosen, tries)
        if node is None:
            return refusal_of(self._preemptor.diagnosis.total_nodes, refused, self._finder.rules)
        return LimitRoom(node, {self._name(row): pods for row, pods in chosen.items()})

    def _possible(self) -> list[tuple[PodInfo, int]]:
        """Return the possible victims with their rows, the most important first."""
        found = []
        for uid in self._finder.rules.victims.members(self._preemptor.pod):
            state = self._cache.pods.get(uid)
            if state is not None and not state.node.shares_row and self._finder.victims.may_evict(self._preemptor.pod, state.info):
                found.append((state.info, state.node.row))
        return sorted(found, key=lambda pair: (-pair[0].priority, started_at(pair[0]), pair[0].key))

    def _node(self, victims: Mapping[int, Sequence[PodInfo]], tries: int) -> tuple[str | None, dict[Status, int]]:
        """Return the node that takes the pod, or why those that were asked do not."""
        pod, _, simulation = self._preemptor
        refused: dict[Status, int] = {}
        for row in [*self._rows_with_room(victims), *victims][:tries]:
            node = self._cache.infos[row]
            if node is None or node.node is None or (simulation.rows is not None and row not in simulation.rows):
                continue
            ahead = self._handle.nominator.ahead(pod, node.name)
            gone = victims.get(row, ())
            refusal = simulation.simulate_on_node(pod, node, add=ahead, remove=gone) if ahead else None
            refusal = refusal or simulation.simulate_on_node(pod, node, remove=gone)
            if refusal is None:
                return node.name, {}
            refused[refusal] = refused.get(refusal, 0) + 1
        return None, refused

    def _rows_with_room(self, victims: Mapping[int, Sequence[PodInfo]]) -> list[int]:
        """Return the rows that have room for the pod as they are, in the order of nodes."""
        simulation, table = self._preemptor.simulation, self._cache.table
        fit = simulation.fit_filter(self._preemptor.pod)
        rows: Rows = table.live_rows() if simulation.rows is None else simulation.rows
        if fit is not None:
            rows = rows[filter_fit(table, fit.request, rows) == 0] if len(rows) else NO_ROWS
        found: list[int] = rows[np.argsort(self._finder.positions()[rows])].tolist()
        return [row for row in found if row not in victims]

    def _name(self, row: int) -> str:
        info = self._cache.infos[row]
        assert info is not None, "rows of victims hold a node"
        return info.name
