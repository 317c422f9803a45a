"""`koord-scheduler simulate`: the same scheduler on an embedded cluster in virtual time.

- `documents.py`, `yaml_events.py`  YAML and JSON files, untrusted
- `completion.py`  what an API server and a kubelet would fill in
- `manifests.py`, `openb.py`  input -> `workload.Workload`
- `cpu_topology.py`  CPU layouts in short (`2x2x26x2`) as NodeResourceTopologies; `cpu_use.py` who holds which CPUs in the end
- `world.py`       the embedded cluster with a scheduler on it (also what scenarios are played on)
- `ledger.py`      what became of each pod, as it happens
- `simulation.py`  plays a workload on a world
- `result.py`      the JSON; `summary.py`, `reasons.py`, `plain.py`, `terminal.py` the table
"""
