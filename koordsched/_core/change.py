"""Kinds of change that the node table logs for a row, so that only answers that read them are asked again."""

from enum import IntFlag

KINDS = 32  # bits of an entry of the log


class NodeChange(IntFlag):
    """A set of kinds. The named ones are what the table itself and the cache log; plugins register their own (`ChangeKinds`)."""

    USAGE = 1  # requested amounts, number of pods
    CAPACITY = 2  # allocatable amounts
    LABELS = 4  # label columns and the name column
    TAINTS = 8  # the taint-set id
    PORTS = 16  # port bits
    IMAGES = 32  # image bits
    EXISTENCE = 64  # the row became a node or ceased to be one
    OBJECT = 128  # anything else of the node's object (annotations, conditions): matters only to plugins that read NodeInfo
    ALL = (1 << KINDS) - 1  # also kinds that are registered later


class ChangeKindError(ValueError):
    """A kind of change cannot be registered. The text names the kind and says why."""


class ChangeKinds:
    """The kinds of change of one node table by name: those of `NodeChange`, and what plugins register for state that they keep beside it.

    Kinds are never given back: a table has as many as plugins of different names, whatever the number of profiles.
    """

    def __init__(self) -> None:
        self._kinds = {kind.name: kind for kind in NodeChange if kind.name}

    def register(self, name: str) -> NodeChange:
        """Return the kind of this name, one of its own from the first time on. ChangeKindError: no bit is left, or the name is in-tree."""
        if name in NodeChange.__members__:
            raise ChangeKindError(f"change kind {name!r}: the node table logs this kind itself; register a name of the plugin's own")
        found = self._kinds.get(name)
        if found is None:
            if len(self._kinds) == KINDS:
                raise ChangeKindError(f"change kind {name!r}: all {KINDS} kinds are taken: {', '.join(self._kinds)}")
            found = self._kinds[name] = NodeChange(1 << len(self._kinds))
        return found
