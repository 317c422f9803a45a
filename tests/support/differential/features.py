"""What the generator may make use of beyond nodes, resources, labels, taints, ports, images and node affinity."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum


class Feature(Enum):
    """A feature, with the plugins that it takes."""

    SPREADING = frozenset({"PodTopologySpread"})
    POD_AFFINITY = frozenset({"InterPodAffinity"})
    VOLUMES = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})
    PREEMPTION = frozenset({"DefaultPreemption", "DynamicResources"})


def available(plugins: Collection[str]) -> frozenset[Feature]:
    """Return the features whose plugins are all there."""
    return frozenset(feature for feature in Feature if feature.value <= set(plugins))
