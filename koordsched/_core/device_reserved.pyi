from collections.abc import Callable, Sequence
from typing import Any

from koordsched._core.device_facts import Allocated, HeldDevice
from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched._core.device_score import DeviceScoring
from koordsched._core.device_table import DeviceTable
from koordsched._core.reserved_source import ReservedSource

class LeftDevices:
    """What a reservation has left of the devices that it was given, or a pod holds."""

    def __init__(self, table: DeviceTable, held: Sequence[HeldDevice], *, restricted: bool, counted: bool = True) -> None:
        """held: ascending by type and minor. restricted: the reservation's owners get what it has, and nothing else.

        counted: no, the table counts nothing of it, because it could not.
        """

    @property
    def restricted(self) -> bool: ...
    @property
    def plain(self) -> bool:
        """Return whether kernels know what is left: no device stands there twice, and the table counts the amounts as they are."""

    def alone(self) -> DeviceAdjustment:
        """Return the only way in which owners of a reservation that is Restricted may take devices: these, of the types that there are."""

    def is_counted_on(self, index: int) -> bool:
        """Answer whether kernels can take this off the node with this index, and put it back: they know it, and a Device lists it all."""

def allocate_left(
    table: DeviceTable,
    request: DeviceRequest,
    row: int,
    left: LeftDevices,
    scoring: DeviceScoring | None = None,
    *,
    mask: int | None = None,
) -> int | Sequence[Allocated]:
    """Return the devices that a reservation, which holds nothing, lets a pod have, the best way first; or why there are none.

    As `allocate` in Reserve.
    """

class ReservedDevices(ReservedSource):
    """Which reservations have the devices that pods of one shape ask for, which are not designated."""

    def __init__(
        self,
        table: DeviceTable,
        request: DeviceRequest,
        given: dict[str, Any],
        known: dict[str, LeftDevices],
        compile_left: Callable[[str], LeftDevices],
        *,
        demanded: bool,
        aligned: bool,
    ) -> None:
        """given: by uid the reservations that were given devices. known: what these have left, filled by `compile_left` when asked for.

        Whoever has them keeps both up to date. demanded: the pod may only go where it is given a reservation, which texts then say.
        aligned: devices come from the NUMA nodes that a source before this one has aligned the pod to.
        """
