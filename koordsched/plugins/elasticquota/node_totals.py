"""What all nodes offer together: what the trees of quotas share out (elasticquota.md §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.quota_definitions import readable_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node
    from koordsched.api.koordinator.quota_definitions import Amounts


class NodeTotals:
    """What is counted of each node, and the sum. A resource is in the sum while a node offers it, if only 0."""

    def __init__(self) -> None:
        self.known: dict[str, Amounts] = {}  # by the node's name
        self._sums: dict[str, list[int]] = {}  # by resource: nano-units, and how many nodes offer it

    def set(self, node: Node) -> bool:
        """Take over what a node offers, and answer whether that is news; what is known of one that is being deleted stays."""
        if node.metadata.deletion_timestamp is not None:
            return False
        name, offered = node.metadata.name, offered_by(node)
        before = self.known.get(name)
        if offered == before:
            return False
        self.known[name] = offered
        self._add(before or {}, -1)
        self._add(offered, 1)
        return True

    def remove(self, name: str) -> bool:
        """Forget a node; answer whether it was known."""
        offered = self.known.pop(name, None)
        self._add(offered or {}, -1)
        return offered is not None

    def sum(self) -> Amounts:
        return {name: amount for name, (amount, _) in self._sums.items()}

    def _add(self, offered: Mapping[str, int], sign: int) -> None:
        for name, amount in offered.items():
            total = self._sums.setdefault(name, [0, 0])
            total[0] += sign * amount
            total[1] += sign
            if not total[1]:
                del self._sums[name]


def offered_by(node: Node) -> Amounts:
    """Return what a node offers; what is no quantity is reported where the node is left out for it."""
    return readable_amounts(node.status.allocatable)
