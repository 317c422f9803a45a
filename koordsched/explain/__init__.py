"""`koord-scheduler explain`: why a pod is pending, and the smallest change that lets it run.

- `command.py`         options in, exit code out
- `cluster.py`         the cluster of the files, played until the pod has had its attempt
- `explanation.py`     what is said of a pod, as one object; `rendering.py`: as tables, `json_body` for `-o json`
- `trials.py`          tries changes on copies of that cluster, with the real scheduler
- `search.py`          finds the smallest changes by trials: single ones, else pairs
- `pod_changes.py`, `node_changes.py`, `group_changes.py`   the changes that are tried: their kind, their amounts, what they write

Nothing is said that was not tried, and nothing outside of the process is written.
"""
