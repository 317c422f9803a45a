"""/debug/pprof: what a Python process can say of where its time and memory go, under the paths of Go's profiles.

- `pages.py`    which path is which profile, and the index
- `cpu.py`      `profile?seconds=30`: CPU time of the event loop's thread by stack, sampled
- `stacks.py`   `goroutine`: tasks by what they wait for; `threadcreate`: threads
- `heap.py`     `heap`, `allocs`: live objects by type, or by line when Python traces allocations
"""

from koordsched.server.profiling.pages import Profiles

__all__ = ["Profiles"]
