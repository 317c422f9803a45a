"""Coscheduling: pods of a gang are placed all together or not at all (coscheduling.md).

- `gangs.py`          which gangs there are, their members, and which gangs go together; follows pods and PodGroups
- `plugin.py`         what is asked about a member at each extension point
- `reasons.py`        what users read
- `problems.py`       what is wrong with gangs, reported on PodGroups and members
- `topology*.py`     where members go in the network: `network_tree.py` has its domains, `topology.py` keeps them and their status,
                      `topology_plan.py` plans a group, `topology_regions.py` says where preemption may make room for one,
                      `topology_attraction.py` ranks nodes by pods that attract others, `topology_aware.py` is what is asked of these
                      at extension points
- `gated.py`          the conditions of members that are held back
- `preemption.py`     which pods are evicted for gangs and for pods in none
- `controller.py`     the phases of PodGroups
- `endpoint.py`       what is shown over HTTP
- `tooling.py`        what `validate` cannot use of PodGroups and members, and what `simulate` reports on gangs
"""
