"""An hour of all that Koordinator's plugins do, on a real control plane, through a proxy that fails: is anything ever sold twice?

    PYTHONPATH=bench:tests python -m soak --minutes 60

- `settings.py`   how much of it
- `cluster.py`    nodes with topologies, devices and metrics, and what befalls them
- `objects.py`    the pods, gangs, quotas and Reservations that come and go; `mutator.py` does it all, a little at a time
- `recount.py`    what must hold whenever nothing is under way, counted from nothing but what the API server says
- `knowledge.py`  what the scheduler and the API server know of what does not hold

The run itself, waiting for rest and the table are those of `churn`, which does the same with kube-scheduler's plugins. It ends with code 1
when something did not hold. docs/benchmarks.md says what it does in words.
"""
