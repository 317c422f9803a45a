"""`koord-scheduler serve`: a scheduler on a real cluster, in a process that answers over HTTP.

- `command.py`         what the command line starts
- `process.py`         the life of the process: ports, API server, scheduler
- `endpoints.py`       what the scheduler answers; below it `debug.py`, `plugin_routes.py` (/apis/v1) and `pod_resources.py`

Ports, access, TLS, leadership and all else that knows no scheduler is in `koordsched.server`.
"""
