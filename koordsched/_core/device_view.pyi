from collections.abc import Sequence
from typing import Any, final

from koordsched._core.device_facts import HeldDevice
from koordsched._core.device_table import DeviceTable
from koordsched._core.view import CompiledPart

def are_listed(table: DeviceTable, index: int, held: Sequence[HeldDevice]) -> bool:
    """Answer whether a Device object lists all of these devices. Of others nothing stays when the last pod that holds one leaves."""

@final
class HiddenDevices(CompiledPart):
    """What some pods of a node hold: hidden, it is free, and the node is known by an entry that does not have these pods.

    Valid until the node's row is changed or touched (`RowView`).
    """

    def __init__(
        self,
        table: DeviceTable,
        index: int,
        entries: dict[str, Any],
        name: str,
        entry_without: object,
        holders: tuple[int, int],
        held: Sequence[HeldDevice],
    ) -> None:
        """entries: what the plugin knows of nodes by name, where `entry_without` takes the place of the one that is there.

        holders: how many pods hold devices of the node, and how many without the hidden ones. held: all that is hidden; `are_listed` holds
        of it. IndexError for an index never cleared.
        """
