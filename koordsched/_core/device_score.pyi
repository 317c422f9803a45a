from collections.abc import Mapping

from koordsched._core.device_facts import DeviceResource

class DeviceScoring:
    """How nodes and devices are scored (deviceshare.md §7)."""

    most: bool
    def __init__(self, weights: Mapping[DeviceResource, int], *, most: bool) -> None:
        """most: the fuller the better. ValueError for weights outside 0 to 2^20."""
