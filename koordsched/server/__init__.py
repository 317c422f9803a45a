"""What a serving process is made of, whatever it serves; nothing here knows the scheduler.

- `serving_thread.py`, `ports.py`, `connections.py`   the ports: in a thread of their own, with limits
- `tls/`, `access/`                                   the secure port: certificates; authentication and authorisation of requests
- `http.py`                                           requests and responses
- `budget.py`, `main_loop.py`                         what answers may cost; how they reach what belongs to the main loop
- `health.py`, `process_metrics.py`, `profiling.py`   what every component answers
- `connecting.py`, `leadership.py`, `heartbeat.py`    the API server, the lease, and whether the main loop runs
- `signals.py`, `garbage.py`                          signals; memory
"""


class StartError(Exception):
    """The process cannot start or go on; the text is one line that says what was being done, to what, and why it failed."""
