"""What a plugin's package offers to the tools that explain and test scheduling (`simulate`, `test`, `validate`); no part of scheduling.

A package that has something to offer holds a `Tooling`; `koordsched.plugins.tooling` lists them. All parts are optional. Objects are JSON
values here, pods as manifests: a tool also looks at clusters that another scheduler serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.cache.cache import Cache
    from koordsched.manifests.strict import StrictReader

Json = dict[str, Any]

BAR_CELLS = 30


class ShortForm(msgspec.Struct, frozen=True):
    """A field that manifests of a kind may have instead of what the API asks for.

    check: ValueError says what is wrong with the field's value. complete: returns the whole object of any manifest of the kind, with the
    field or without it; ValueError names the field too.
    """

    kind: Kind
    field: str
    check: Callable[[Any], object]
    complete: Callable[[Mapping[str, Any]], Json]


class NodeOption(msgspec.Struct, frozen=True):
    """A flag of `simulate` that gives nodes an object of a kind, of their name, where the input has none.

    parse: reads the flag; ValueError. make: returns the object for a node. doubt: says what does not go with these nodes, or "".
    """

    flag: str
    metavar: str
    help: str
    kind: Kind
    parse: Callable[[str], Any]
    make: Callable[[Any, Json], Json]
    doubt: Callable[[Any, Sequence[Json]], str]


class ExclusiveResource(msgspec.Struct, frozen=True):
    """Units of a node that a pod holds for itself: pods on one node hold different ones.

    units: those that a pod's annotations record. shown: describes units of a node, one text for each that is worth a line.
    """

    name: str
    units: Callable[[Json], frozenset[Any]]
    shown: Callable[[frozenset[Any]], Sequence[str]]


class PodCheck(msgspec.Struct, frozen=True):
    """A key below `expect.pods.NAME` of scenarios.

    read: makes a rule of the key's value, whose mistakes go to the reader. node_kind: the kind of which `differences` gets the object that
    has the name of the pod's node, or None. differences: yields what the rule expects and does not hold. seen: describes the pod, whose
    state is given as text.
    """

    key: str
    read: Callable[[StrictReader, Any, str], Any]
    node_kind: Kind
    differences: Callable[[Any, Json, Json | None], Iterable[str]]
    seen: Callable[[Json, str], str]


class ObjectCheck(msgspec.Struct, frozen=True):
    """What the plugin cannot use of objects of a kind. problems: yields a line for each mistake, with path, value and what counts then."""

    kind: Kind
    problems: Callable[[Any], Iterable[str]]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A titled table. align: one of < and > per column. notes stand below it, one line each."""

    title: str
    columns: tuple[str, ...]
    align: str
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()


class Figure(msgspec.Struct, frozen=True):
    """A number by which two runs are compared. is_share: it is a share of a whole, to be shown in percent."""

    label: str
    value: float
    is_share: bool = False


class PluginReport(msgspec.Struct, frozen=True):
    """summary: a Struct for the JSON. sections: the tables, with at most so many pods. figures: what of it two runs are compared by."""

    summary: msgspec.Struct
    sections: Callable[[int], Sequence[Section]]
    figures: Sequence[Figure] = ()


class Report(msgspec.Struct, frozen=True):
    """What `simulate` reports at its end, below `key` in the JSON's summary.

    flag, help: how many pods or nodes its table has at most. kind: the objects that `make` gets beside the pods on nodes, in the order of
    their creation, and beside what the scheduler knew of nodes at the end; there is nothing to report when it returns None, or where no
    object is.
    """

    key: str
    flag: str
    help: str
    kind: Kind
    make: Callable[[Iterable[Pod], Iterable[Object], Cache], PluginReport | None]


class UnitsOnNodes(msgspec.Struct, frozen=True):
    """The units that nodes have: their numbers, by the node's name. waste: how much of what is free of a node's units, in percent of one,
    is not expected to be of use, given milli-cores, bytes and percent of each unit that are free."""

    numbers: Mapping[str, tuple[int, ...]]
    waste: Callable[[int, int, tuple[int, ...]], float]


class SharedUnits(msgspec.Struct, frozen=True):
    """Units of nodes of which pods hold shares, such as GPUs.

    key: that of the report in the summary. name: what one is called. find: what nodes have, None where none has any; its pods are those
    that ever were on nodes. held: percent that a pod holds, by the unit's number.
    """

    key: str
    name: str
    find: Callable[[Iterable[Pod], Cache], UnitsOnNodes | None]
    held: Callable[[Pod], Mapping[int, int]]


class Tooling(msgspec.Struct, frozen=True, kw_only=True):
    """explanations: patterns of refusal texts, and their meaning in words of a newcomer ({0} is the pattern's first group).
    pod_annotations: those in which the plugin writes what it gave a pod, which a pod made anew does not have.
    """

    explanations: tuple[tuple[str, str], ...] = ()
    short_forms: tuple[ShortForm, ...] = ()
    node_options: tuple[NodeOption, ...] = ()
    exclusive: tuple[ExclusiveResource, ...] = ()
    pod_checks: tuple[PodCheck, ...] = ()
    reports: tuple[Report, ...] = ()
    shared_units: tuple[SharedUnits, ...] = ()
    object_checks: tuple[ObjectCheck, ...] = ()
    pod_annotations: tuple[str, ...] = ()


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def bar(share: float) -> str:
    filled = min(max(round(share * BAR_CELLS), 0), BAR_CELLS)
    return "#" * filled + "." * (BAR_CELLS - filled)
