"""From plugin sets to the plugins of every extension point, in order (framework.md §1.2 items 2-5, `framework/runtime/framework.go`).

MultiPoint is spread over the points its plugins play. The order at a point: first its own plugins that are also MultiPoint, in the
point's order; then the other MultiPoint plugins, in their order; then the rest of its own. All mistakes are reported, each with the
reference's text and the path of the set it stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate

from koordsched.config.catalogue import REMOVED_PLUGINS
from koordsched.config.errors import near_miss
from koordsched.config.extension_points import EXTENSION_POINTS
from koordsched.config.merging import ALL
from koordsched.config.types import SETS, PluginRef, Plugins, PluginSet
from koordsched.yamltext.documents import shown

Report = Callable[[str, str], None]

MAX_NODE_SCORE = 100
MAX_TOTAL_SCORE = 2**63 - 1

_FILLED = sorted(EXTENSION_POINTS, key=lambda point: point.filled)
_INTERFACES = {point.name: point.interface for point in EXTENSION_POINTS}


def expand(
    plugins: Plugins, implements: Mapping[str, frozenset[str]], scheduler_name: str, report: Report
) -> dict[str, tuple[PluginRef, ...]]:
    """Return every point's plugins.

    implements: the points each known plugin plays. report: takes (path within the plugins, problem); without a report the result is what
    the reference runs.
    """
    _report_unknown(plugins, implements, report)
    _report_repeated(plugins, implements, report)
    points = {point.name: _expand_point(plugins, point.name, implements, report) for point in EXTENSION_POINTS}
    for point in EXTENSION_POINTS:
        needed, count = f"{point.required} {point.words} plugin", len(points[point.name])
        if point.required == "only one" and count != 1:
            report(point.name, f"{needed} required for profile with scheduler name {shown(scheduler_name)}, but got {count}")
        if point.required == "at least one" and not count:
            report(point.name, f"{needed} is needed for profile with scheduler name {shown(scheduler_name)}")
    refs = {point: tuple(PluginRef(name) for name in names) for point, names in points.items()}
    weights = _weights(plugins, implements, report)
    return refs | {"score": tuple(PluginRef(name, weights[name]) for name in points["score"])}


def _report_unknown(plugins: Plugins, implements: Mapping[str, frozenset[str]], report: Report) -> None:
    for name in SETS:
        interface = _INTERFACES.get(name, _FILLED[0].interface)
        for index, plugin in enumerate(plugins.at(name).enabled):
            if plugin.name not in implements and plugin.name not in REMOVED_PLUGINS:
                report(f"{name}.enabled[{index}]", f"{interface} {shown(plugin.name)} does not exist{near_miss(plugin.name, implements)}")


def _report_repeated(plugins: Plugins, implements: Mapping[str, frozenset[str]], report: Report) -> None:
    """Refuse a second multiPoint entry of a plugin, unless every point it plays names it or does without it."""
    seen: set[str] = set()
    for index, plugin in enumerate(plugins.multi_point.enabled):
        if plugin.name in seen:
            for point in _FILLED:
                own = plugins.at(point.name)
                named = {entry.name for entry in own.enabled} | own.disabled_names
                if point.name in implements.get(plugin.name, frozenset()) and not named & {plugin.name, ALL}:
                    report(f"multiPoint.enabled[{index}]", f'plugin {shown(plugin.name)} already registered as "{point.interface}"')
                    break
        seen.add(plugin.name)


def _expand_point(plugins: Plugins, point: str, implements: Mapping[str, frozenset[str]], report: Report) -> list[str]:
    own = _own(plugins.at(point), point, implements, report)
    disabled = plugins.at(point).disabled_names
    if ALL in disabled:
        return own
    playing = (plugin.name for plugin in plugins.multi_point.enabled if point in implements.get(plugin.name, frozenset()))
    multi = [name for name in dict.fromkeys(playing) if name not in disabled]
    overriding = [name for name in own if name in multi]
    return overriding + [name for name in multi if name not in own] + [name for name in own if name not in multi]


def _own(plugin_set: PluginSet, point: str, implements: Mapping[str, frozenset[str]], report: Report) -> list[str]:
    """Return the plugins that the point itself enables."""
    own: list[str] = []
    for index, plugin in enumerate(plugin_set.enabled):
        where = f"{point}.enabled[{index}]"
        if plugin.name not in implements:
            continue
        if point not in implements[plugin.name]:
            report(where, f"plugin {shown(plugin.name)} does not extend {_INTERFACES[point]} plugin")
        elif plugin.name in own:
            report(where, f'plugin {shown(plugin.name)} already registered as "{_INTERFACES[point]}"')
        else:
            own.append(plugin.name)
    return own


def _weights(plugins: Plugins, implements: Mapping[str, frozenset[str]], report: Report) -> dict[str, int]:
    """Give each scorer the weight of its score entry, else of its multiPoint entry, else 1.

    As in the reference, whose check is a subtraction, a sum that is negative on the way counts as an overflow too.
    """
    weights: dict[str, int] = {}
    for plugin in (*plugins.score.enabled, *plugins.multi_point.enabled):
        if "score" in implements.get(plugin.name, frozenset()):
            weights.setdefault(plugin.name, plugin.weight or 1)
    sums = list(accumulate(weight * MAX_NODE_SCORE for weight in weights.values()))
    if max(sums, default=0) > MAX_TOTAL_SCORE or min(sums[:-1], default=0) < 0:
        report("score", "total score of Score plugins could overflow")
    return weights
