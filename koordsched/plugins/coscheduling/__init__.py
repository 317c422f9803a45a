"""Coscheduling: pods of a gang are placed all together or not at all (coscheduling.md).

- `gangs.py`          which gangs there are, their members, and which gangs go together; follows pods and PodGroups
- `plugin.py`         what is asked about a member at each extension point
- `texts.py`          what users read
- `gated.py`          the conditions of members that are held back
- `preemption.py`     which pods are evicted for gangs and for pods in none
- `controller.py`     the phases of PodGroups
- `endpoint.py`       what is shown over HTTP
- `tooling.py`        what `validate` cannot use of PodGroups and members
"""
