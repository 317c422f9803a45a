"""Restrictions: the nodes that a pod may go to, as rows, apart from what filters say of these (framework.md §2.1, PreFilterResult).

PreFilter may name nodes, for all pods of a shape alike. Plugins that restrict (`interface.RestrictNodesPlugin`) do so apart from the shape:
pods of one shape may be restricted in a thousand ways and share its columns. Several restrictions intersect. What a restriction costs is in
proportion to its rows, never to the number of nodes, and a restriction that changes leaves the shape as it is
(docs/decisions/0014-restrictions-beside-shapes.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import NodeChange
from koordsched._core.counts import Changes
from koordsched.config.extension_points import PRE_FILTER
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.pre_filter import nowhere
from koordsched.framework.row_refusals import NO_ROWS
from koordsched.framework.status import PluginError, Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.interface import RestrictNodesPlugin
    from koordsched.framework.pre_filter import PreFiltered
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.timings import CycleTimings

RestrictionKeys = tuple["Hashable | None", ...]
"""Of each restricting plugin what its restriction of a pod depends on; None where it does not restrict the pod."""

NO_KEYS: RestrictionKeys = ()


class Restriction:
    """The rows that a pod may go to, as long as `Restrictions.is_current` says so."""

    __slots__ = ("_outside", "existence", "named", "of_pod", "plugins", "refusal", "rows", "versions")

    def __init__(self, rows: Rows, plugins: Collection[str], refusal: Status | None = None, chosen_by: str = "") -> None:
        """chosen_by: the plugin that decided on the only node for one pod; the text about all other nodes does not name it."""
        self.rows = rows  # ascending, live
        self.plugins = frozenset((*plugins, chosen_by) if chosen_by else plugins)  # that restrict
        self.of_pod = chosen_by != ""  # else all pods of a shape and of equal keys are restricted so
        self.refusal = refusal  # why there is no node at all, as PreFilter says it; None: there may be one
        self._outside = plugins
        self.existence = 0  # NodeTable.existence, when the rows were found
        self.named: object = None  # the names by which PreFilter restricts the shape
        self.versions: Sequence[Hashable] = ()  # of the plugins that restrict apart from the shape

    @property
    def status(self) -> Status:
        """The refusal of all other nodes."""
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self._outside))}]")

    def has(self, row: int) -> bool:
        """Answer whether the pod may go to the row."""
        place = int(np.searchsorted(self.rows, row))
        return place < len(self.rows) and bool(self.rows[place] == row)


class Restrictions:
    """Finds the restrictions of one profile's pods."""

    def __init__(self, plugins: Sequence[RestrictNodesPlugin], cache: Cache, timings: CycleTimings) -> None:
        """plugins: in running order."""
        self._plugins = plugins
        self._cache = cache
        self._timings = timings
        self._evaluations = [timings.evaluations(plugin.name, PRE_FILTER.label) for plugin in plugins]
        kinds = [plugin.reads & ~NodeChange.EXISTENCE for plugin in plugins]  # that a node came or went is counted by the table
        self._changes = [Changes(cache.table, int(read)) if read else None for read in kinds]

    def keys(self, pod: PodInfo) -> RestrictionKeys | Status | None:
        """Return what the pod's restrictions depend on; None if no plugin restricts it, a Status if one cannot make sense of the pod."""
        restricted = False
        keys = []
        for plugin in self._plugins:
            key = plugin.restriction_key(pod)
            if isinstance(key, Status):
                return key.with_plugin(plugin.name)
            keys.append(key)
            restricted |= key is not None
        return tuple(keys) if restricted else None

    def is_current(self, restriction: Restriction, pod: PodInfo, keys: RestrictionKeys, pre_filtered: PreFiltered) -> bool:
        """Answer whether the pods of these keys are still restricted in this way."""
        return (
            restriction.existence == self._cache.table.existence
            and restriction.named is pre_filtered.node_names
            and (not keys or restriction.versions == self.versions(pod, keys))
        )

    def find(self, pod: PodInfo, keys: RestrictionKeys, pre_filtered: PreFiltered) -> Restriction:
        """Return the pod's restriction: by PreFilter's names, if there are any, and by the plugins that have keys. PluginError."""
        versions = self.versions(pod, keys)
        found = self._find(pod, keys, pre_filtered)
        found.existence = self._cache.table.existence
        found.named = pre_filtered.node_names
        found.versions = versions
        return found

    def _find(self, pod: PodInfo, keys: RestrictionKeys, pre_filtered: PreFiltered) -> Restriction:
        names, plugins, rows = pre_filtered.node_names, set(pre_filtered.named), None
        for plugin, evaluations, key in zip(self._plugins, self._evaluations, keys or (), strict=bool(keys)):
            if key is None:
                continue
            evaluations.count += 1
            if self._timings.recording:
                answer = self._timings.timed(plugin.name, PRE_FILTER.label, plugin.restrict)(pod, self._cache.nodes())
            else:
                answer = plugin.restrict(pod, self._cache.nodes())
            if answer is None or (isinstance(answer, PreFilterResult) and answer.node_names is None):
                continue
            if isinstance(answer, Status):
                if answer.rejected:
                    return Restriction(NO_ROWS, {plugin.name}, answer.with_plugin(plugin.name))
                text = f'running PreFilter plugin "{plugin.name}": {answer.message}'
                raise PluginError(Status(answer.code, (text,), plugin.name), PRE_FILTER.label)
            plugins.add(plugin.name)
            if isinstance(answer, PreFilterResult):
                names = answer.node_names if names is None or answer.node_names is None else names & answer.node_names
                if not names:
                    return Restriction(NO_ROWS, plugins, nowhere(plugins))
            else:
                allowed = _checked(plugin, answer)
                rows = allowed if rows is None else np.intersect1d(rows, allowed, assume_unique=True)
                if not len(rows):
                    return Restriction(NO_ROWS, plugins, nowhere(plugins))
        if names is not None:
            named = rows_named(self._cache, names)
            rows = named if rows is None else np.intersect1d(rows, named, assume_unique=True)
        return Restriction(self._cache.table.live_rows() if rows is None else rows, plugins)

    def versions(self, pod: PodInfo, keys: RestrictionKeys) -> list[Hashable]:
        """Return what the plugins' answers depend on besides their keys and which nodes there are."""
        versions: list[Hashable] = []
        for plugin, changes, key in zip(self._plugins, self._changes, keys or (), strict=bool(keys)):
            if key is not None:
                versions += (plugin.restriction_version(pod), 0 if changes is None else changes.version())
        return versions


def rows_named(cache: Cache, names: Iterable[str]) -> Rows:
    """Return the rows of the nodes of these names, ascending; names of which there is no node are left out."""
    found = map(cache.nodes_by_name.get, names)
    rows = np.array([info.row for info in found if info is not None and info.node is not None], np.int32)
    rows.sort()
    return rows


def _checked(plugin: RestrictNodesPlugin, rows: Rows) -> Rows:
    if rows.dtype != np.int32 or rows.ndim != 1 or (rows[1:] <= rows[:-1]).any():
        raise ValueError(f"plugin {plugin.name}: a restriction is an ascending vector of int32 rows, each once")
    return rows
