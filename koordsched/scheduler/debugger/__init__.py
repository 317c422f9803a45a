"""What shows the scheduler's beliefs and compares them with the cluster (framework.md §1.6): SIGUSR2 logs it, `/debug` answers it.

Debugger (debugger.py) is what others use. A comparison has two halves that together say that the cache equals a fresh list:

- `beliefs`: the cache, what plugins keep and the queue against what the watches say: each node with its pods must be what is derived anew
  from the watched objects and the assumed pods.
- `fresh_list`: what the watches say against what the API server says now. Changes on their way explain a difference, so only what stays
  different for some seconds is reported.

A Debugger changes nothing. The standing check (`standing_check`) looks in the same way at one part after the other, and `mending` makes
equal what differs. All of it works in slices of some ms (`slices`), so that nothing is held up.
"""

from koordsched.scheduler.debugger.comparison import Comparison, Stale, WrongNode
from koordsched.scheduler.debugger.debugger import Debugger
from koordsched.scheduler.debugger.dump import CacheDump, QueueDump
from koordsched.scheduler.debugger.sources import Sources
from koordsched.scheduler.debugger.standing_check import StandingCheck

__all__ = ["CacheDump", "Comparison", "Debugger", "QueueDump", "Sources", "Stale", "StandingCheck", "WrongNode"]
