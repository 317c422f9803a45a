from collections.abc import Mapping
from typing import Any, Protocol, final

from koordsched._core.device_reserved import LeftDevices
from koordsched._core.device_table import DeviceTable
from koordsched._core.view import CompiledPart

class HoldingNode(Protocol):
    """What a plugin knows of a node."""

    pods: dict[str, Any]
    """The pods that hold devices of it, by uid."""

@final
class HiddenDevices(CompiledPart):
    """What some pods of a node hold: hidden, it is free, and the node is not known to have these pods.

    Valid until the node's row is changed or touched (`RowView`).
    """

    def __init__(self, table: DeviceTable, index: int, entry: HoldingNode, held: Mapping[str, LeftDevices]) -> None:
        """held: what each of the pods holds, by uid; `LeftDevices.is_counted_on` holds of it. IndexError for an index never cleared."""
