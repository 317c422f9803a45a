"""Reservation: capacity of nodes that is kept for pods to come (reservation.md).

- `info.py`       one reservation, with who owns how much of it
- `groups.py`     indexes of few reservations, or of few owners, a key
- `matching.py`   which pods may use which reservations
- `state.py`      the reservations of the cluster, the pods that stand for them in the cache, and their owners
- `reasons.py`    what users read
- `diagnosis.py`  why the reservations of a pod that fits nowhere are of no use to it
- `nomination.py` which of its reservations a pod is given on the chosen node
- `links.py`      the annotation that says which reservation a pod was given
- `candidates.py`    running pods that a reservation may take over, by their labels
- `preallocation.py` which of them a kind of reservations takes over
- `adoption.py`      what is asked about such a reservation at each extension point
- `preemption.py` evicting pods of lower priority for pods and for Reservations
- `policies.py`   on which nodes there are reservations of which policy
- `plugin.py`     what is asked about a pod at each extension point
- `tooling.py`    the table of reservations in `simulate`
"""
