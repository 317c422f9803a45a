"""`koord-scheduler simulate`: the same scheduler on an embedded cluster in virtual time.

- `manifests.py`, `openb.py`, `table_trace.py`  input -> `workload.Workload`
- `simulation.py`  runs a workload on a `koordsched.embedded` cluster
- `pod_history.py` what became of each pod, as it happens; `usage.py` what the cluster was used for, replayed from it
- `report/`        the HTML page
- `result.py`      the JSON; `summary.py`, `terminal.py` the tables

What it shows of single plugins comes from their packages (`koordsched.framework.tooling`).
"""
