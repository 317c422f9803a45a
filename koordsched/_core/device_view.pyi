from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

from koordsched._core.device_reserved import LeftDevices
from koordsched._core.device_table import DeviceTable
from koordsched._core.view import CompiledPart

class HoldingNode(Protocol):
    """What a plugin knows of a node."""

    pods: dict[str, Any]
    """The pods that hold devices of it, by uid."""

def hidden_devices(
    table: DeviceTable,
    pods: Mapping[int, Sequence[Any]],
    infos: list[Any],
    entries: dict[str, Any],
    known: dict[str, LeftDevices],
    compiled: Callable[[Any], LeftDevices],
) -> list[tuple[int, HiddenDevices | None]]:
    """Return what hides the devices that these pods of each row hold; None where that takes more. No entry where they hold none.

    infos: the names of rows. entries: by name of a node, each a `HoldingNode` with its `index`. known: by uid of a reservation what it has
    left; what others hold, and what is not known yet, is `compiled` of what the entry has of the pod.
    """

@final
class HiddenDevices(CompiledPart):
    """What some pods of a node hold: hidden, it is free, and the node is not known to have these pods.

    Valid until the node's row is changed or touched (`RowView`).
    """

    def __init__(self, table: DeviceTable, index: int, entry: HoldingNode, held: Mapping[str, LeftDevices]) -> None:
        """held: what each of the pods holds, by uid; `LeftDevices.is_counted_on` holds of it. IndexError for an index never cleared."""
