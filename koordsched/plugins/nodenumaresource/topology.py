"""Follows NodeResourceTopologies and Nodes, and tells the state of each change; what is wrong with one is said once.

Where the author looks: a line in the log for each mistake, and one event on the Node, when there is one. An object that is corrected and
broken again is told of again. A plugin is told of a node before the cache is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.nodes import NodePolicy, node_policy
from koordsched.cluster.event_series import EventText
from koordsched.cluster.mirror import Arrival
from koordsched.log import get_logger
from koordsched.plugins.nodenumaresource.options import TopologyOptions, read_options
from koordsched.plugins.nodenumaresource.usage import NO_POLICY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node
    from koordsched.api.meta import Unstructured
    from koordsched.cluster.mirror import FinalState
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

REASON = "InvalidNUMATopology"


class Described(Protocol):
    """Who is told what is known of nodes."""

    def set_options(self, name: str, options: TopologyOptions | None) -> None:
        """The node's topology is this now; None: it has none."""

    def set_policy(self, name: str, policy: NodePolicy) -> None:
        """The Node says this now."""


def follow_topologies(handle: Handle, described: Described) -> None:
    """Tell of everything that is known, and of every change. To be called while a plugin is made."""
    mistakes = _Mistakes(handle)
    handle.informer(NODE_RESOURCE_TOPOLOGY).add_handler(_Topologies(described, mistakes))
    handle.informer(NODE).add_handler(_Nodes(described, mistakes))


class _Mistakes:
    """What is wrong with objects, by node and kind, and telling it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}  # by kind and name of the object

    def found(self, kind: str, name: str, problems: tuple[str, ...]) -> None:
        """Take note of what is wrong with an object now, and tell it when it is new."""
        if self._known.get((kind, name), ()) == problems:
            return
        if not problems:
            del self._known[kind, name]
            return
        self._known[kind, name] = problems
        for problem in problems:
            log.warning("an object about CPUs and NUMA nodes is not right", kind=kind, node=name, problem=problem)
        self._handle.malformed_object(kind)
        self._say(kind, name, problems)

    def node_came(self, name: str) -> None:
        """Tell on the node what was wrong with its topology before there was a node to tell it on."""
        problems = self._known.get((NODE_RESOURCE_TOPOLOGY.kind, name))
        if problems:
            self._say(NODE_RESOURCE_TOPOLOGY.kind, name, problems)

    def _say(self, kind: str, name: str, problems: tuple[str, ...]) -> None:
        node = self._nodes.get(name)
        if node is not None:
            text = EventText("Warning", REASON, "Scheduling", f"{kind}: {'; '.join(problems)}")
            self._handle.event_on(node, text)


class _Topologies:
    def __init__(self, described: Described, mistakes: _Mistakes) -> None:
        self._described = described
        self._mistakes = mistakes

    def on_add(self, nrt: Unstructured, _arrival: Arrival) -> None:
        name = nrt.metadata.name
        options = read_options(nrt)
        self._described.set_options(name, options)
        self._mistakes.found(NODE_RESOURCE_TOPOLOGY.kind, name, options.problems)

    def on_update(self, _old: Unstructured, new: Unstructured) -> None:
        self.on_add(new, Arrival.LATER)

    def on_delete(self, nrt: Unstructured, _final_state: FinalState) -> None:
        self._described.set_options(nrt.metadata.name, None)
        self._mistakes.found(NODE_RESOURCE_TOPOLOGY.kind, nrt.metadata.name, ())


class _Nodes:
    def __init__(self, described: Described, mistakes: _Mistakes) -> None:
        self._described = described
        self._mistakes = mistakes

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._read(node)
        self._mistakes.node_came(node.metadata.name)

    def on_update(self, old: Node, new: Node) -> None:
        before, after = old.metadata, new.metadata
        if before.labels != after.labels or before.annotations != after.annotations:
            self._read(new)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        self._described.set_policy(node.metadata.name, NO_POLICY)
        self._mistakes.found(NODE.kind, node.metadata.name, ())

    def _read(self, node: Node) -> None:
        policy = node_policy(node)
        self._described.set_policy(node.metadata.name, policy)
        self._mistakes.found(NODE.kind, node.metadata.name, policy.problems)
