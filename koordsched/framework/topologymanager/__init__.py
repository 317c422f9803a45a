"""The topology manager: on which NUMA nodes of a node a pod's CPUs, memory and devices come from together (nodenumaresource.md §9).

    NodeNUMAResource, on a node with a NUMA policy
        | check (Filter, Score), admit (Reserve)
        v
    TopologyManager -- hints --> every NumaHintProvider of the profile, itself among them
        |  merge: `_core.numa_merge.merge_hints`
        |-- allocate, as a trial, with what came out --> every provider
        v
    Affinity, or the refusal

A plugin takes part by inheriting `NumaHintProvider`; the profile hands all of its providers the one manager they share. Who allocates
later, in Reserve, keeps inside `TopologyManager.affinity`. Pods that no other provider wants never come here: NodeNUMAResource answers for
all nodes at once (`_core.numa_filter`), with the same result.
"""

from koordsched.framework.topologymanager.manager import Affinity, NumaHintProvider, TopologyManager, unite
from koordsched.framework.topologymanager.refusals import UNALIGNED, UNSATISFIED, merged_status

__all__ = ["UNALIGNED", "UNSATISFIED", "Affinity", "NumaHintProvider", "TopologyManager", "merged_status", "unite"]
