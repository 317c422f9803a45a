"""Which host ports the pods of each row use.

Pods of one template use the same ports, and any client may create a pod with thousands of them. So the unit is the list of ports of a pod:
each distinct list has one bit column over the rows, however many ports are in it, and is found by each of its port numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.api.resources import ANY_ADDRESS, HostPort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koordsched._core.table import NodeTable
    from koordsched._core.view import Part

PORTS = int(NodeChange.PORTS)

_by_number = attrgetter("port", "protocol")


class PortList:
    """The host ports that some pods use together: sorted by number, their bit column, and on which rows more than one pod has them."""

    __slots__ = ("bit", "others", "ports")

    def __init__(self, ports: Iterable[HostPort], bit: int) -> None:
        self.ports = tuple(sorted(ports, key=_by_number))
        self.bit = bit
        self.others: dict[int, int] = {}  # row -> pods beyond the first, > 0

    def conflicts(self, wanted: HostPort) -> bool:
        number = _by_number(wanted)
        begin, end = bisect_left(self.ports, number, key=_by_number), bisect_right(self.ports, number, key=_by_number)
        return any(ips_conflict(wanted.ip, used.ip) for used in self.ports[begin:end])


class HostPorts:
    """The ports in use, as bit columns of a node table. Changes of a row are logged in it."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._lists: dict[tuple[HostPort, ...], PortList] = {}
        self._by_number: dict[int, tuple[PortList, ...]] = {}

    def __len__(self) -> int:
        """Return how many distinct lists of ports are in use."""
        return len(self._lists)

    def lists(self) -> Iterator[PortList]:
        """Yield what is in use, on one row at least."""
        yield from (found for found in self._lists.values() if self._table.count_bits(found.bit))

    def use(self, row: int, ports: tuple[HostPort, ...], *, quietly: bool = False) -> None:
        """Let one pod more use these ports on a row. quietly: in a simulation, which logs nothing.

        The row is marked also where others use them already: an owner of credits does not see its placeholders among these.
        """
        found = self._lists.get(ports)
        if found is None:
            found = self._lists[ports] = PortList(ports, self._table.new_bit())
            alone = (found,)  # one for all numbers that only these pods use
            for number in _numbers(ports):
                others = self._by_number.get(number)
                self._by_number[number] = alone if others is None else (*others, found)
        if self._table.has_bit(found.bit, row):
            found.others[row] = found.others.get(row, 0) + 1
        else:
            self._table.set_bit(found.bit, row)
        if not quietly:
            self._table.mark(row, PORTS)

    def free(self, row: int, ports: tuple[HostPort, ...], *, quietly: bool = False) -> None:
        """Let one pod fewer use these ports on a row. A row that lost them by a fault is left to the standing check, which mends it.

        quietly: in a simulation, which logs nothing and leaves the list of ports its bit, since it comes back.
        """
        found = self._lists.get(ports)
        if found is None or not self._table.has_bit(found.bit, row):
            return
        if not quietly:
            self._table.mark(row, PORTS)
        others = found.others.get(row, 0)
        if others > 1:
            found.others[row] = others - 1
        elif others == 1:
            del found.others[row]
        else:
            self._table.clear_bit(found.bit, row)
            if not quietly and self._table.count_bits(found.bit) == 0:
                self._forget(ports, found)

    def without(self, row: int, users: Iterable[tuple[HostPort, ...]]) -> tuple[list[int], list[Part]]:
        """Return how to hide pods with these ports on a row: bit columns that they alone have set there, and what else there is to hide."""
        bits: list[int] = []
        parts: list[Part] = []
        for ports, count in Counter(users).items():
            found = self._lists.get(ports)
            if found is None or not self._table.has_bit(found.bit, row):
                continue
            others = found.others.get(row, 0)
            if count > others:
                bits.append(found.bit)
            if others:
                parts.append(HiddenUsers(found, row, max(others - count, 0)))
        return bits, parts

    def forget_unused(self, ports: tuple[HostPort, ...]) -> None:
        """Forget these ports if a simulation alone has used them."""
        found = self._lists.get(ports)
        if found is not None and self._table.count_bits(found.bit) == 0:
            self._forget(ports, found)

    def erase(self, row: int) -> None:
        """Let nothing be used on a row, whatever its columns say."""
        for ports, found in list(self._lists.items()):
            found.others.pop(row, None)
            self._table.clear_bit(found.bit, row)
            if self._table.count_bits(found.bit) == 0:
                self._forget(ports, found)

    def _forget(self, ports: tuple[HostPort, ...], found: PortList) -> None:
        del self._lists[ports]
        self._table.free_bit(found.bit)
        for number in _numbers(ports):
            users = tuple([each for each in self._by_number[number] if each is not found])
            if users:
                self._by_number[number] = users
            else:
                del self._by_number[number]

    def conflicting_bits(self, wanted: Iterable[HostPort]) -> list[int]:
        """Return the bit columns of rows on which one of these ports is taken. O(lists with the same numbers)."""
        found = {each.bit for port in wanted for each in self._by_number.get(port.port, ()) if each.conflicts(port)}
        return sorted(found)


class HiddenUsers:
    """Some of the pods beyond the first that use a list of ports on a row, in views."""

    counts_alone = True

    def __init__(self, ports: PortList, row: int, left: int) -> None:
        """left: how many pods beyond the first a view shows."""
        self._others = ports.others
        self._row = row
        self._before = ports.others[row]
        self._left = left

    def hide(self) -> None:
        if self._left:
            self._others[self._row] = self._left
        else:
            del self._others[self._row]

    def restore(self) -> None:
        self._others[self._row] = self._before


def ips_conflict(one: str, other: str) -> bool:
    return one == other or ANY_ADDRESS in {one, other}


def _numbers(ports: Sequence[HostPort]) -> set[int]:
    return {port.port for port in ports}
