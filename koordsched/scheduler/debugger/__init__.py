"""What shows the scheduler's cache and queue and compares them with the cluster (framework.md §1.6): SIGUSR2 logs it, `/debug` answers it.

`Debugger` (debugger.py) is what others use. A comparison has two halves that together say that the cache equals a fresh list:

- `cache_comparison`: the cache, what plugins keep and the queue against what the watches say: each node with its pods must be what is
  derived anew from the watched objects and the assumed pods.
- `list_comparison`: what the watches say against what the API server says now. Changes on their way explain a difference, so only what
  stays different for some seconds is reported.

A Debugger changes nothing. The standing check (`standing_check`) compares one part after the other in the same way, and makes equal what
differs. All of it works in slices of some ms (`koordsched.slices`), so that nothing is held up.
"""

from koordsched.scheduler.debugger.comparison import Comparison, Sources, Stale, WrongNode
from koordsched.scheduler.debugger.debugger import Debugger
from koordsched.scheduler.debugger.dump import CacheDump, QueueDump
from koordsched.scheduler.debugger.standing_check import StandingCheck

__all__ = ["CacheDump", "Comparison", "Debugger", "QueueDump", "Sources", "Stale", "StandingCheck", "WrongNode"]
