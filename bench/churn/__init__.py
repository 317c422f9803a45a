"""Constant churn on a real control plane, through a proxy that fails: does the scheduler stay right, and does its memory stay flat?

    PYTHONPATH=bench:tests python -m churn --minutes 30

- `runner.py`     the run itself, for `soak` too: mutations, a look each minute, the table, the exit code
- `settings.py`   how much of it
- `shapes.py`     the pods that come and go
- `cluster.py`    the nodes and what befalls them; `mutator.py` does it all, a little at a time
- `quiescence.py` waits, each minute, until nothing is under way any more
- `checks.py`     what must hold then: no drift of the cache, nothing overcommitted, no pod bound twice, none forgotten
- `growth.py`     whether resident memory grows
- `report.py`     the table

It ends with code 1 when something did not hold. docs/benchmarks.md says what it does in words.
"""
