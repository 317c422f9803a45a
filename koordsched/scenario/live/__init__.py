"""Scenarios on a real cluster (scenarios.md): the same files, an API server, and any scheduler.

`backend` connects and runs the scripts, `cluster` does the steps through `api`, which sends its requests by `client`; `admission` makes up
for what an API server demands or adds that no scenario speaks of, `process` starts and ends the scheduler under test, `clearing` takes away
what a scenario made and nothing else. `limits` says which scenarios cannot run so. The cluster is to have no nodes that a pod of a scenario
could land on.
"""
