"""From the plugin sets of a profile to the plugins of every extension point, in order (framework.md §1.2).

First the user's sets are merged over the default ones (item 1, `apis/config/v1/default_plugins.go`). Then multiPoint is spread over the
points its plugins play (items 2-5, `framework/runtime/framework.go`). The order at a point: first its own plugins that are also MultiPoint,
in the point's order; then the other MultiPoint plugins, in their order; then the rest of its own. All mistakes are reported, each with the
reference's text and the path of the set it stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate

from msgspec.structs import replace

from koordsched.config.catalogue import REMOVED_PLUGINS
from koordsched.config.errors import near_miss
from koordsched.config.extension_points import EXTENSION_POINTS
from koordsched.config.types import SETS, PluginEntry, PluginRef, Plugins, PluginSet
from koordsched.yamltext.documents import shown

ALL = "*"
DEFAULT_PRE_BIND = "DefaultPreBind"


Report = Callable[[str, str], None]

MAX_NODE_SCORE = 100
MAX_TOTAL_SCORE = 2**63 - 1

_FILLED = sorted(EXTENSION_POINTS, key=lambda point: point.filled)
_INTERFACES = {point.name: point.interface for point in EXTENSION_POINTS}


def merge_plugins(default: Plugins, custom: Plugins) -> Plugins:
    """Merge set by set, multiPoint included."""
    return Plugins.from_sets({name: merge_plugin_set(default.at(name), custom.at(name)) for name in SETS})


def merge_plugin_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Keep the defaults that are not disabled, in their order, each replaced in place where the user also lists it; append the rest.

    A name that the user lists twice stays twice: the expansion refuses it.
    """
    disabled = tuple(PluginEntry(name=plugin.name) for plugin in (*custom.disabled, *default.disabled))
    names = {plugin.name for plugin in disabled}
    overrides = {plugin.name: index for index, plugin in enumerate(custom.enabled)}  # of two equal names the last replaces
    kept: list[PluginEntry] = []
    replaced: set[int] = set()
    for plugin in default.enabled if ALL not in names else ():
        if plugin.name in names:
            continue
        index = overrides.get(plugin.name)
        if index is not None:
            replaced.add(index)
        kept.append(plugin if index is None else custom.enabled[index])
    appended = (plugin for index, plugin in enumerate(custom.enabled) if index not in replaced)
    return PluginSet(enabled=(*kept, *appended), disabled=disabled)


def append_default_pre_bind(plugins: Plugins) -> Plugins:
    """Enable DefaultPreBind at preBind unless it is there, or it or `*` is disabled there (frameworkext.md §1.1 item 2).

    koord-scheduler does this after merging and before it builds the profiles, so what --write-config-to writes has it too.
    """
    pre_bind = plugins.pre_bind
    present = any(plugin.name == DEFAULT_PRE_BIND for plugin in pre_bind.enabled)
    if present or pre_bind.disabled_names & {ALL, DEFAULT_PRE_BIND}:
        return plugins
    return replace(plugins, pre_bind=replace(pre_bind, enabled=(*pre_bind.enabled, PluginEntry(name=DEFAULT_PRE_BIND))))


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
