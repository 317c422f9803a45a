"""NodeUnschedulable: keeps pods off cordoned nodes (framework.md §10.1)."""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(explanations=((r"node\(s\) were unschedulable", "these nodes are cordoned"),))
