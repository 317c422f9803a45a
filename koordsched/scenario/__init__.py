"""`koord-scheduler test`: scheduling behaviour as YAML (scenarios.md), played on any cluster behind `world.World`.

`format` reads a file strictly, `objects` turns its short manifests into full ones, `steps` and `runner` play them, `observation` looks at
the cluster, `expectations` judges what was seen (pure functions), `report` prints. Nothing in here knows which adapter is behind the World.
"""
