"""`koord-scheduler explain`: why a pod is pending, and the smallest change that lets it run.

- `command.py`         options in, exit code out
- `dry_run.py`         the file of `-f`
- `server.py`          asks a scheduler that runs instead
- `cluster.py`         the cluster of the files, played until the pod has had its attempt
- `rendering.py`      what is said of a pod (`scheduler.suggestions.explanation`) as tables, `json_body` for `-o json`
- `trials.py`         tries changes on copies of that cluster, with the real scheduler; `applying.py` makes them there
- `node_changes.py`, `group_changes.py`   the changes that are tried beside those of the pod itself

Nothing is said that was not tried, and nothing outside of the process is written.
"""
