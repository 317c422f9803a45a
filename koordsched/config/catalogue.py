"""Which plugins exist, which extension points each plays, and the class of its arguments.

REFERENCE is what kube-scheduler 1.35 and Koordinator v1.8.0 ship, so that a configuration can be expanded and validated whatever this
version of koordsched has built. A scheduler with out-of-tree plugins passes its own `Catalogue`, made by `with_plugin`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from koordsched.config.args import IN_TREE_ARGS
from koordsched.config.koordinator_args import KOORDINATOR_ARGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.config.types import PluginArgs

T = TypeVar("T")

_FILTERS = frozenset({"preFilter", "filter"})
_SCORES = frozenset({"preScore", "score"})

IN_TREE_POINTS: dict[str, frozenset[str]] = {
    "SchedulingGates": frozenset({"preEnqueue"}),
    "PrioritySort": frozenset({"queueSort"}),
    "NodeUnschedulable": frozenset({"filter"}),
    "NodeName": frozenset({"filter"}),
    "TaintToleration": frozenset({"filter"}) | _SCORES,
    "NodeAffinity": _FILTERS | _SCORES,
    "NodePorts": _FILTERS,
    "NodeResourcesFit": _FILTERS | _SCORES,
    "VolumeRestrictions": _FILTERS,
    "NodeVolumeLimits": _FILTERS,
    "VolumeBinding": _FILTERS | _SCORES | {"reserve", "preBind"},
    "VolumeZone": _FILTERS,
    "PodTopologySpread": _FILTERS | _SCORES,
    "InterPodAffinity": _FILTERS | _SCORES,
    "DynamicResources": _FILTERS | {"preEnqueue", "postFilter", "score", "reserve", "preBind"},
    "DefaultPreemption": frozenset({"preEnqueue", "postFilter"}),
    "NodeResourcesBalancedAllocation": _SCORES,
    "ImageLocality": frozenset({"score"}),
    "DefaultBinder": frozenset({"bind"}),
    "NodeDeclaredFeatures": _FILTERS,
    "GangScheduling": frozenset({"preEnqueue", "reserve", "permit"}),
}

KOORDINATOR_POINTS: dict[str, frozenset[str]] = {
    "LoadAwareScheduling": _FILTERS | {"score", "reserve"},
    "NodeNUMAResource": _FILTERS | _SCORES | {"reserve", "preBind"},
    "DeviceShare": _FILTERS | _SCORES | {"reserve", "preBind"},
    "Reservation": _FILTERS | _SCORES | {"postFilter", "reserve", "preBind", "bind"},
    "Coscheduling": _SCORES | {"preEnqueue", "preFilter", "postFilter", "reserve", "permit", "preBind", "postBind"},
    "ElasticQuota": frozenset({"preFilter", "postFilter", "reserve"}),
    "DefaultPreBind": frozenset({"preBind"}),
    "NodeResourcesFitPlus": _SCORES,
    "ScarceResourceAvoidance": _SCORES,
    "SchedulingHint": frozenset({"preFilter"}),
}

REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


class Catalogue(msgspec.Struct, frozen=True):
    """All known plugins. points: name -> extension points; args: name -> class of its arguments, for those that have one.

    unusable: name -> what is wrong, for installed plugins that cannot be used: a configuration that enables one is refused with that text.
    """

    points: Mapping[str, frozenset[str]]
    args: Mapping[str, type[PluginArgs]]
    unusable: Mapping[str, str] = MappingProxyType({})

    def with_plugin(self, name: str, points: frozenset[str], args: type[PluginArgs] | None = None) -> Catalogue:
        """Return a catalogue with one more plugin; it replaces one of the same name."""
        known_args = _without(self.args, name)
        return replace(self, points={**self.points, name: points}, args={**known_args, name: args} if args is not None else known_args)

    def with_unusable(self, name: str, problem: str) -> Catalogue:
        """Return a catalogue in which no plugin of this name can be used, with the reason."""
        return Catalogue(_without(self.points, name), _without(self.args, name), {**self.unusable, name: problem})


def _without(mapping: Mapping[str, T], name: str) -> dict[str, T]:
    return {other: value for other, value in mapping.items() if other != name}


REFERENCE = Catalogue(
    MappingProxyType({**IN_TREE_POINTS, **KOORDINATOR_POINTS}),
    MappingProxyType({**IN_TREE_ARGS, **KOORDINATOR_ARGS}),
)
