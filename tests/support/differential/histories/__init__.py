"""The differential test of whole histories: koord-scheduler v1.8.0 and ours live through the same changes of the same cluster.

Where one pod at a time can be judged, `support.differential.koordinator` does that. Reservations, gangs and quotas decide over time: what
is compared here is what a user sees after each step, nodes, messages, annotations and statuses.

- `lives.py`         what a generator makes: many lives on one cluster, each with nodes of its own, and what happens to each, step by step
- `reservations.py`  the generator of Reservations with owners and strangers
- `quotas.py`        that of trees of quotas; `gangs.py` that of gangs
- `player.py`        plays lives on a real control plane with one of the two schedulers, and notes what is there after each step
- `__main__.py`      plays both and prints where they first differ
"""
