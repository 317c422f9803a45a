"""SchedulingGates: keeps a pod out of the active queue while spec.schedulingGates names anything (framework.md §10.1)."""
