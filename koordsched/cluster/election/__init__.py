"""Leader election on a Lease, after client-go's rules (framework.md §1.6): of several schedulers one leads, the others wait.

- `record.py`   what a Lease says, whatever is in it
- `term.py`     how long things may take, and until when this process may act as the leader: the one fact that all threads look at
- `elector.py`  acquiring, renewing and releasing

Two processes never act at the same time: the leader stops `Timing.term` after it *began* its last successful renewal, which is before
another process takes the lease: not until lease_duration after they *saw* that renewal. No clock is ever compared with another one's
([decision 5](../../../docs/decisions/0005-leader-election-and-fencing.md)).
"""

from koordsched.cluster.election.elector import ElectionConfig, Elector
from koordsched.cluster.election.term import LeaderTerm, TermWatchdog, Timing

__all__ = ["ElectionConfig", "Elector", "LeaderTerm", "TermWatchdog", "Timing"]
