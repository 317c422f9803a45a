"""The embedded cluster: what an API server keeps and answers, in memory and in virtual time.

- `cluster.py`   the verbs of the port, one method each, with the faults that are injected
- `registry.py`  all objects and the rules by which they change; no waiting
- `store.py`     the objects of a kind, their versions and the history that watches read
- `watch.py`     one watch: batches, bookmarks, its end
- `paging.py`    consistent pages of a list
- `patches.py`   merge patch and strategic merge patch, copying only the changed path
- `metadata.py`  what the server writes into metadata, and a patch's preconditions
- `schemas.py`   the definitions of custom resources: defaults, checks, whether the status is a subresource
- `checking.py`  validation; what was found valid of pods is kept
- `templates.py` storage that objects share which differ in their names only
- `admission.py` what the API server fills in when a pod is created
- `lifecycle.py` binding and deletion of one object, as values
- `evictions.py` evictions under disruption budgets, as values
- `volumes.py`   the volume controller: claims and volumes are bound as by kube-controller-manager
- `faults.py`    injected faults: failing and late requests, cut watches, lost history
- `answers.py`   the API server's error texts
"""

from koordsched.cluster.memory.cluster import MemoryCluster, MemoryClusterOptions
from koordsched.cluster.memory.faults import Fault, Faults, Moment, Verb

__all__ = ["Fault", "Faults", "MemoryCluster", "MemoryClusterOptions", "Moment", "Verb"]
