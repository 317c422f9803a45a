"""`koord-scheduler test`: scheduling behaviour as YAML (scenarios.md), run on any cluster behind `cluster.ScenarioCluster`.

`format` reads a file strictly, `objects` turns its short manifests into full ones, `steps` and `runner` run them, `observation` reads the
cluster, `expectations` compares (pure functions). A `cluster.Backend` makes the clusters: `embedded` in memory, `live` on an API server.
What can be expected of single plugins comes from their packages (`koordsched.framework.tooling`).
"""
