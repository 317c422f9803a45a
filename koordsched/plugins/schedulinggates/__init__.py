"""SchedulingGates: keeps a pod out of the active queue while spec.schedulingGates names anything (framework.md §10.1)."""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(explanations=((r"Scheduling is blocked due to non-empty scheduling gates", "the pod still has scheduling gates"),))
