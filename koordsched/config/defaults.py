"""What a configuration gets that it does not say: the default plugins (framework.md §1.3), and fields whose zero means a default (§1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.config.duration import Duration
from koordsched.config.types import (
    ClientConnection,
    KubeSchedulerProfile,
    LeaderElection,
    PluginEntry,
    Plugins,
    PluginSet,
    SchedulerConfiguration,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from koordsched.config.features import FeatureGates

DEFAULT_SCHEDULER_NAME = "default-scheduler"
EXTENDER_TIMEOUT = Duration(5)

DEFAULT_MULTI_POINT = (
    PluginEntry(name="SchedulingGates"),
    PluginEntry(name="PrioritySort"),
    PluginEntry(name="NodeUnschedulable"),
    PluginEntry(name="NodeName"),
    PluginEntry(name="TaintToleration", weight=3),
    PluginEntry(name="NodeAffinity", weight=2),
    PluginEntry(name="NodePorts"),
    PluginEntry(name="NodeResourcesFit", weight=1),
    PluginEntry(name="VolumeRestrictions"),
    PluginEntry(name="NodeVolumeLimits"),
    PluginEntry(name="VolumeBinding"),
    PluginEntry(name="VolumeZone"),
    PluginEntry(name="PodTopologySpread", weight=2),
    PluginEntry(name="InterPodAffinity", weight=2),
    PluginEntry(name="DynamicResources", weight=2),
    PluginEntry(name="DefaultPreemption"),
    PluginEntry(name="NodeResourcesBalancedAllocation", weight=1),
    PluginEntry(name="ImageLocality", weight=1),
    PluginEntry(name="DefaultBinder"),
)

GATED_MULTI_POINT = {"NodeDeclaredFeatures": "NodeDeclaredFeatures", "GangScheduling": "GangScheduling"}
"""Plugin -> the gate that appends it to the default set."""


def default_plugins(gates: FeatureGates) -> Plugins:
    """Return the plugin sets of a profile that says nothing: all plugins stand in multiPoint."""
    gated = tuple(PluginEntry(name=name) for name, gate in GATED_MULTI_POINT.items() if gates[gate])
    return Plugins(multi_point=PluginSet(enabled=DEFAULT_MULTI_POINT + gated))


def apply_defaults(config: SchedulerConfiguration, given: Container[str]) -> SchedulerConfiguration:
    """Fill in what depends on what was given (`given` holds the paths of the file): names, zeros that mean a default, profiles."""
    profiles = config.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and "profiles[0].schedulerName" not in given:
        profiles = (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    contention = config.enable_contention_profiling
    if not config.enable_profiling and "enableContentionProfiling" not in given:
        contention = False
    return replace(
        config,
        profiles=profiles,
        enable_contention_profiling=contention,
        leader_election=_default_leader_election(config.leader_election),
        client_connection=_default_client_connection(config.client_connection),
        extenders=tuple(
            extender if extender.http_timeout else replace(extender, http_timeout=EXTENDER_TIMEOUT) for extender in config.extenders
        ),
    )


def _default_leader_election(given: LeaderElection) -> LeaderElection:
    default = LeaderElection()
    return replace(
        given,
        lease_duration=Duration(given.lease_duration or default.lease_duration),
        renew_deadline=Duration(given.renew_deadline or default.renew_deadline),
        retry_period=Duration(given.retry_period or default.retry_period),
        resource_lock=given.resource_lock or default.resource_lock,
        resource_name=given.resource_name or default.resource_name,
        resource_namespace=given.resource_namespace or default.resource_namespace,
    )


def _default_client_connection(given: ClientConnection) -> ClientConnection:
    default = ClientConnection()
    return replace(
        given,
        content_type=given.content_type or default.content_type,
        qps=given.qps or default.qps,
        burst=given.burst or default.burst,
    )
