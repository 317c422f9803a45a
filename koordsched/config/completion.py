"""A decoded profile made complete: plugins merged, arguments typed, points worked out.

The order is koord-scheduler's: merge with the defaults, decode and default the arguments, append DefaultPreBind, build. "Building" a plugin
means for a configuration: validate what its constructor would refuse; a plugin enabled nowhere is not built. Mistakes go to
`Mistakes`. Last, over all profiles: the resources that extenders take care of, so that NodeResourcesFit does not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.config.args import IN_TREE_COMPLETION, NodeResourcesFitArgs
from koordsched.config.args_validation import VALIDATED_ON_LOAD
from koordsched.config.catalogue import REMOVED_PLUGINS, Catalogue
from koordsched.config.decoding import Report, decode_struct
from koordsched.config.errors import Mistakes, invalid, near_miss
from koordsched.config.koordinator_args import KOORDINATOR_COMPLETION
from koordsched.config.koordinator_validation import VALIDATED_WHEN_BUILT
from koordsched.config.plugin_sets import append_default_pre_bind, expand
from koordsched.config.types import API_VERSION, KubeSchedulerProfile, PluginArgs, PluginConfig, Plugins
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.config.features import FeatureGates
    from koordsched.config.types import SchedulerConfiguration


_COMPLETION: dict[type[PluginArgs], Callable[[Any, FeatureGates], PluginArgs]] = {**IN_TREE_COMPLETION, **KOORDINATOR_COMPLETION}
_ENTRY = r"(\w+)\.enabled\[(\d+)\]"  # compiled when there is a mistake


class Context(msgspec.Struct, frozen=True):
    """What completing needs besides the profile."""

    gates: FeatureGates
    catalogue: Catalogue
    mistakes: Mistakes


def complete_profile(profile: KubeSchedulerProfile, given: Plugins, path: str, context: Context) -> KubeSchedulerProfile:
    """Fill in the rest of a profile whose plugins are merged already; given: its plugins as the user wrote them."""
    plugins = append_default_pre_bind(profile.plugins)

    def report_plugins(where: str, problem: str) -> None:
        problem = context.catalogue.unusable.get(_named_at(where, plugins), problem)
        context.mistakes.refused(f"{path}.plugins.{_given_path(where, plugins, given)}", problem)

    points = expand(plugins, context.catalogue.points, profile.scheduler_name, report_plugins)
    configs = complete_args(profile, plugins.enabled_names(), f"{path}.pluginConfig", context)
    return replace(profile, plugins=plugins, points=points, plugin_config=configs)


def _given_path(where: str, merged: Plugins, given: Plugins) -> str:
    """Turn the place of an entry in a merged set into its place in the file; a default plugin has none there."""
    match = re.match(_ENTRY, where)
    if match is None:
        return where
    name = merged.at(match[1]).enabled[int(match[2])].name
    places = [index for index, plugin in enumerate(given.at(match[1]).enabled) if plugin.name == name]
    return f"{match[1]}.enabled[{places[-1]}]" if places else match[1]


def _named_at(where: str, plugins: Plugins) -> str:
    """Return the plugin of an entry of a set; "" for the place of a set as a whole."""
    match = re.match(_ENTRY, where)
    return plugins.at(match[1]).enabled[int(match[2])].name if match else ""


def complete_args(profile: KubeSchedulerProfile, enabled: set[str], path: str, context: Context) -> tuple[PluginConfig, ...]:
    """Return the arguments of the enabled plugins, sorted by plugin: what pluginConfig gives, else the defaults."""
    made: dict[str, Any] = {}
    for index, config in enumerate(profile.plugin_config):
        args = _read_args(config, f"{path}[{index}]", context)
        if args is None or config.name in made:  # a repeated entry has been reported
            continue
        made[config.name] = args
        if isinstance(args, PluginArgs):
            _report_problems(replace(config, args=args), f"{path}[{index}].args", context, built=config.name in enabled)
    for name, cls in context.catalogue.args.items():
        if name in enabled and name not in made:
            made[name] = _completed(cls(), context.gates)
    return tuple(PluginConfig(name=name, args=made[name]) for name in sorted(made) if name in enabled)


def _read_args(config: PluginConfig, path: str, context: Context) -> Any:
    """Type and default an entry's arguments; None when there are none to keep."""
    catalogue = context.catalogue
    if config.name not in catalogue.points:
        if config.name not in {*REMOVED_PLUGINS, *catalogue.unusable}:  # where an unusable one is enabled, that is said there
            problem = invalid(config.name, f"no such plugin{near_miss(config.name, catalogue.points)}")
            context.mistakes.refused(f"{path}.name", problem)
        return None
    if config.args is not None and not isinstance(config.args, dict):
        context.mistakes.refused(f"{path}.args", f"{shown(config.args)}: expected a mapping")
        return None
    cls = catalogue.args.get(config.name)
    if cls is None:
        return config.args
    body = _without_header(config, f"{path}.args", context.mistakes.refused)
    return _completed(decode_struct(body, cls, f"{path}.args", context.mistakes.unreadable), context.gates)


def _without_header(config: PluginConfig, path: str, report: Report) -> dict[str, Any]:
    """Check apiVersion and kind, which may be left out, and return the rest."""
    body = dict(config.args or {})
    version, kind = body.pop("apiVersion", None), body.pop("kind", None)
    if version not in (None, "", API_VERSION):
        report(f"{path}.apiVersion", invalid(version, f"expected {API_VERSION}"))
    expected = f"{config.name}Args"
    if kind not in (None, "", expected):
        report(f"{path}.kind", invalid(kind, f"has to match plugin args: those of plugin {config.name} are of kind {expected}"))
    return body


def _completed(args: PluginArgs, gates: FeatureGates) -> PluginArgs:
    complete = _COMPLETION.get(type(args))
    return complete(args, gates) if complete is not None else args


def _report_problems(config: PluginConfig, path: str, context: Context, *, built: bool) -> None:
    """Report what is wrong with typed arguments; what only a constructor would refuse, if the plugin is built."""
    args = config.args
    on_load, when_built = VALIDATED_ON_LOAD.get(type(args)), VALIDATED_WHEN_BUILT.get(type(args))
    if on_load is not None:
        for where, problem in on_load(args, context.gates):
            context.mistakes.refused(f"{path}.{where}", problem)
    if built:
        problems = when_built(args, context.gates) if when_built is not None else args.problems()
        for where, problem in problems:
            context.mistakes.refused(f"{path}.{where}", f'initializing plugin "{config.name}": {where}: {problem}')


def without_ignored_resources(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return the configuration with the extenders' ignoredByScheduler resources added to what NodeResourcesFit ignores.

    Kubernetes v1.35 puts them in the place of the profile's own ignoredResources, which are then checked again; here both are ignored.
    """
    ignored = [resource.name for extender in config.extenders for resource in extender.managed_resources if resource.ignored_by_scheduler]
    if not ignored:
        return config

    def ignoring(entry: PluginConfig) -> PluginConfig:
        if not isinstance(entry.args, NodeResourcesFitArgs):
            return entry
        union = tuple(dict.fromkeys([*entry.args.ignored_resources, *ignored]))
        return replace(entry, args=replace(entry.args, ignored_resources=union))

    profiles = (replace(profile, plugin_config=tuple(map(ignoring, profile.plugin_config))) for profile in config.profiles)
    return replace(config, profiles=tuple(profiles))
