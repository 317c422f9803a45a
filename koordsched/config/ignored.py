"""Resources that extenders take care of, so that NodeResourcesFit does not (framework.md §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.config.args import NodeResourcesFitArgs

if TYPE_CHECKING:
    from koordsched.config.types import KubeSchedulerProfile, PluginConfig, SchedulerConfiguration


def without_ignored_resources(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return the configuration with the extenders' ignoredByScheduler resources added to what NodeResourcesFit ignores.

    Kubernetes v1.35 puts them in the place of the profile's own ignoredResources, which are then checked again; here both are ignored.
    """
    ignored = [resource.name for extender in config.extenders for resource in extender.managed_resources if resource.ignored_by_scheduler]
    if not ignored:
        return config
    return replace(config, profiles=tuple(_ignoring(profile, ignored) for profile in config.profiles))


def _ignoring(profile: KubeSchedulerProfile, ignored: list[str]) -> KubeSchedulerProfile:
    return replace(profile, plugin_config=tuple(_with(entry, ignored) for entry in profile.plugin_config))


def _with(entry: PluginConfig, ignored: list[str]) -> PluginConfig:
    if not isinstance(entry.args, NodeResourcesFitArgs):
        return entry
    union = tuple(dict.fromkeys([*entry.args.ignored_resources, *ignored]))
    return replace(entry, args=replace(entry.args, ignored_resources=union))
