"""TaintToleration: keeps pods off nodes with taints that they do not tolerate (framework.md §10.1)."""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(explanations=((r"node\(s\) had untolerated taint.*", "these nodes have a taint that the pod does not tolerate"),))
