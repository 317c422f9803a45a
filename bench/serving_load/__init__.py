"""What the scheduler's ports cost scheduling: the same backlog is drained without and with a load on all endpoints, on a real API server.

    PYTHONPATH=bench:tests python -m serving_load --nodes 5000 --pods 5000

- `__main__.py`  the runs and what they come to
- `client.py`    the load, a process of its own: idle TLS connections, requests to every endpoint, headers that hardly come
- `probed.py`    the scheduler with a task beside it that measures how late its event loop is

The scheduler serves first: it stands by with full caches while another holds the lease, and the load's connections are all open. Then it
gets the lease, and `whole_pods_s` counts from that moment. The load's client takes part of the machine, too: `load_cores` says how much,
and with two cores for everything that part is missing elsewhere (of `lag_ms`, the `own_` figures are the scheduler's). It asks again when
it was answered: a server that answers more lets it cost more.
"""
