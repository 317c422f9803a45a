"""The user's plugin sets over the default ones (framework.md §1.2 item 1, `apis/config/v1/default_plugins.go`)."""

from __future__ import annotations

from msgspec.structs import replace

from koordsched.config.types import SETS, PluginEntry, Plugins, PluginSet

ALL = "*"
DEFAULT_PRE_BIND = "DefaultPreBind"


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
