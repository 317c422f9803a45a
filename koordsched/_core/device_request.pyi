from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import final

from koordsched._core.device_facts import DeviceResource, DeviceType, PartitionDemand, TypeDemand

ByMinor = Mapping[DeviceType, Mapping[int, Mapping[DeviceResource, int]]]
Minors = Mapping[DeviceType, Collection[int]]
BusIds = Mapping[DeviceType, Mapping[int, Collection[str]]]

@final
class DeviceRequest:
    """What equal pods ask of devices (deviceshare.md §4)."""

    shared: bool
    type_count: int
    def __init__(
        self,
        types: Mapping[DeviceType, TypeDemand],
        *,
        shared: bool = False,
        joint: Sequence[DeviceType] = (),
        same_pcie: bool = False,
        partition: PartitionDemand | None = None,
        scope: int | None = None,
        templates: Mapping[str, Sequence[str]] | None = None,
        isolation_provider: str = "",
        unshareable: Iterable[tuple[str, str]] = (),
    ) -> None:
        """joint: types that are allocated together, the primary one first. scope: level of the scope that all GPUs must be within.

        templates: those that are what is asked for, by "<vendor>-<model>"; None: they do not matter. unshareable: vendors and models.
        ValueError for nothing that is asked for, a resource that is none of its type, or joint types that are not asked for.
        """

@final
class DeviceAdjustment:
    """What one pod may take on one node besides what is free, or instead of it."""

    def __init__(
        self,
        reusable: ByMinor = ...,
        required: ByMinor | None = None,
        preferred: Minors = ...,
        required_minors: Minors = ...,
        only: Minors = ...,
        included: Minors = ...,
        freed_vfs: BusIds = ...,
        only_vfs: BusIds = ...,
        *,
        complete_required: bool = False,
    ) -> None:
        """reusable: amounts that count as not used. required: no more than this is free of the types named, of other minors nothing.

        preferred, required_minors: which devices are taken first, or alone, where the topology does not decide (§6.1). only: the devices
        that may be taken at all. included: devices that have to be taken. freed_vfs: virtual functions that count as free. only_vfs:
        those of a device that may be taken. complete_required: memory and ratio in `required` follow from each other (§6.3).
        """
