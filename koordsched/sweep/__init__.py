"""`koord-scheduler sweep`: `simulate` under several configurations, on several inputs, with several seeds, by the workers of Dask.

- `format.py`      the sweep's file -> a `Sweep`
- `identity.py`    what a result depends on, as a digest
- `run.py`         one run, as a worker does it
- `folder.py`      the runs that are done, and what is missing
- `workers.py`     the workers, and the runs that they are given
- `statistics.py`  means with their intervals, over the seeds
- `results.py`     Parquet, JSON and tables
- `command.py`     the command

Whatever stands below `format.Sweep` is the same however often the sweep is interrupted, and by however many workers it is done.
"""
