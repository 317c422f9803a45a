"""What the scheduler's ports cost scheduling: the same backlog is drained without and with a load on all endpoints, on a real API server.

    PYTHONPATH=bench:tests python -m serving_load --nodes 5000 --pods 5000

- `__main__.py`  the runs and what they come to
- `client.py`    the load, a process of its own: idle TLS connections, requests to every endpoint, headers that hardly come
- `probed.py`    the scheduler with a task beside it that measures how late its event loop is

The load takes part of the machine, too: `cores` says how much, and with two cores for everything that part is missing elsewhere.
"""
