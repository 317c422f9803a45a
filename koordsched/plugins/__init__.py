"""The in-tree plugins, one package each. Nothing outside a plugin's package knows its inside; the registry below makes them.

A factory gets the plugin's arguments (None when it takes none) and the handle. To add a plugin, write its package and its line here.
What packages offer to `simulate` and `test` beside the plugin is listed by `tooling`. Out-of-tree plugins come from the entry-point group
`koordsched.plugins` (`discovery`), which is searched only when a configuration names one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.config.catalogue import REFERENCE
from koordsched.plugins.coscheduling.plugin import Coscheduling
from koordsched.plugins.defaultbinder.plugin import DefaultBinder
from koordsched.plugins.defaultprebind.plugin import DefaultPreBind
from koordsched.plugins.defaultpreemption.plugin import DefaultPreemption
from koordsched.plugins.deviceshare.fragmentation import device_share
from koordsched.plugins.discovery import installed, offering_packages
from koordsched.plugins.dynamicresources.plugin import DynamicResources
from koordsched.plugins.elasticquota.plugin import ElasticQuotaPlugin
from koordsched.plugins.imagelocality.plugin import ImageLocality
from koordsched.plugins.interpodaffinity.plugin import InterPodAffinity
from koordsched.plugins.loadaware.plugin import LoadAwareScheduling
from koordsched.plugins.nodeaffinity.plugin import NodeAffinityPlugin
from koordsched.plugins.nodename.plugin import NodeName
from koordsched.plugins.nodenumaresource.plugin import NodeNUMAResource
from koordsched.plugins.nodeports.plugin import NodePorts
from koordsched.plugins.noderesourcesbalancedallocation.plugin import NodeResourcesBalancedAllocation
from koordsched.plugins.noderesourcesfit.plugin import NodeResourcesFit
from koordsched.plugins.noderesourcesfitplus.plugin import NodeResourcesFitPlus
from koordsched.plugins.nodeunschedulable.plugin import NodeUnschedulable
from koordsched.plugins.nodevolumelimits.plugin import NodeVolumeLimits
from koordsched.plugins.podtopologyspread.plugin import PodTopologySpread
from koordsched.plugins.prioritysort.plugin import PrioritySort
from koordsched.plugins.reservation.plugin import ReservationPlugin
from koordsched.plugins.scarceresourceavoidance.plugin import ScarceResourceAvoidance
from koordsched.plugins.schedulinggates.plugin import SchedulingGates
from koordsched.plugins.schedulinghint.plugin import SchedulingHint
from koordsched.plugins.tainttoleration.plugin import TaintToleration
from koordsched.plugins.volumebinding.plugin import VolumeBinding
from koordsched.plugins.volumerestrictions.plugin import VolumeRestrictions
from koordsched.plugins.volumezone.plugin import VolumeZone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.config import Catalogue, SchedulerConfiguration
    from koordsched.framework.profile import PluginFactory
    from koordsched.framework.tooling import Tooling

REGISTRY: dict[str, PluginFactory] = {
    "SchedulingGates": lambda _args, _handle: SchedulingGates(),
    "PrioritySort": lambda _args, _handle: PrioritySort(),
    "NodeUnschedulable": lambda _args, handle: NodeUnschedulable(handle),
    "NodeName": lambda _args, _handle: NodeName(),
    "TaintToleration": lambda _args, handle: TaintToleration(handle),
    "NodeAffinity": NodeAffinityPlugin,
    "NodePorts": lambda _args, _handle: NodePorts(),
    "NodeResourcesFit": NodeResourcesFit,
    "DynamicResources": lambda _args, _handle: DynamicResources(),
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
    "VolumeRestrictions": lambda _args, handle: VolumeRestrictions(handle),
    "NodeVolumeLimits": lambda _args, handle: NodeVolumeLimits(handle),
    "VolumeBinding": VolumeBinding,
    "VolumeZone": lambda _args, handle: VolumeZone(handle),
    "ImageLocality": lambda _args, handle: ImageLocality(handle),
    "PodTopologySpread": PodTopologySpread,
    "InterPodAffinity": InterPodAffinity,
    "DefaultPreemption": DefaultPreemption,
    "DefaultBinder": lambda _args, handle: DefaultBinder(handle),
    "Coscheduling": Coscheduling,
    "LoadAwareScheduling": LoadAwareScheduling,
    "NodeNUMAResource": NodeNUMAResource,
    "DeviceShare": device_share,
    "NodeResourcesFitPlus": NodeResourcesFitPlus,
    "ScarceResourceAvoidance": ScarceResourceAvoidance,
    "SchedulingHint": SchedulingHint,
    "ElasticQuota": ElasticQuotaPlugin,
    "Reservation": ReservationPlugin,
    "DefaultPreBind": lambda _args, handle: DefaultPreBind(handle),
}


def registry_for(config: SchedulerConfiguration) -> Mapping[str, PluginFactory]:
    """Return what makes the plugins of a configuration: the registry, with the installed out-of-tree plugins if it enables any."""
    enabled = {ref.name for profile in config.profiles for refs in profile.points.values() for ref in refs}
    return REGISTRY if enabled <= REFERENCE.points.keys() else {**installed().classes, **REGISTRY}


def tooling() -> Sequence[Tooling]:
    """Return what the plugins' packages offer to tools, in the order of the registry."""
    from koordsched.plugins import (  # noqa: PLC0415  # scheduling does without
        interpodaffinity,
        nodeaffinity,
        nodeports,
        noderesourcesfit,
        nodeunschedulable,
        podtopologyspread,
        schedulinggates,
        tainttoleration,
    )
    from koordsched.plugins.coscheduling import tooling as coscheduling  # noqa: PLC0415
    from koordsched.plugins.deviceshare import tooling as deviceshare  # noqa: PLC0415
    from koordsched.plugins.elasticquota import tooling as elasticquota  # noqa: PLC0415
    from koordsched.plugins.loadaware import tooling as loadaware  # noqa: PLC0415
    from koordsched.plugins.nodenumaresource import tooling as nodenumaresource  # noqa: PLC0415
    from koordsched.plugins.reservation import tooling as reservation  # noqa: PLC0415

    packages = (
        schedulinggates,
        nodeunschedulable,
        tainttoleration,
        nodeaffinity,
        nodeports,
        noderesourcesfit,
        podtopologyspread,
        interpodaffinity,
        nodenumaresource,
        loadaware,
        deviceshare,
        elasticquota,
        coscheduling,
        reservation,
    )
    return [package.TOOLING for package in packages]


def installed_catalogue() -> Catalogue:
    """Return all plugins that a configuration may name here: in-tree ones and those of installed distributions. Slow on the first call."""
    return installed().catalogue


def out_of_tree_packages() -> Sequence[str]:
    """Return the packages that bring out-of-tree plugins, sorted, without importing any."""
    return offering_packages()
