"""What shows the scheduler's beliefs and compares them with the cluster (framework.md §1.6): SIGUSR2 logs it, `/debug` answers it.

Debugger (debugger.py) is what others use. A comparison has two halves that together say that the cache equals a fresh list:

- `beliefs`: the cache and the queue against what the watches say, between two awaits, so exactly: the node table must equal one that is
  built anew from the watched objects and the assumed pods.
- `fresh_list`: what the watches say against what the API server says now. Changes on their way explain a difference, so only what stays
  different for some seconds is reported.

Nothing here changes anything. A comparison holds up scheduling while it computes: about 1.5 s for 5,000 nodes with 50,000 pods.
"""

from koordsched.scheduler.debugger.comparison import Comparison, Stale, WrongNode
from koordsched.scheduler.debugger.debugger import Debugger
from koordsched.scheduler.debugger.dump import CacheDump, QueueDump
from koordsched.scheduler.debugger.sources import Sources

__all__ = ["CacheDump", "Comparison", "Debugger", "QueueDump", "Sources", "Stale", "WrongNode"]
