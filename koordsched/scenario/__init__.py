"""`koord-scheduler test`: scheduling behaviour as YAML (scenarios.md), run on any cluster behind `cluster.ScenarioCluster`.

- `format.py`         a file to `model.Scenario`s, strictly; `format_given.py` its objects, `format_expect.py` its expectations
- `runner.py`         runs scenarios step by step; `objects.py` turns their short manifests into full ones
- `observation.py`    what there is to see of the cluster; `expectations.py` compares it with what is expected (pure functions)
- `cluster.py`        the port: a `Backend` makes the clusters, `embedded.py` in memory, `live/` on an API server

What can be expected of single plugins comes from their packages (`koordsched.framework.tooling`).
"""
