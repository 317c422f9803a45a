"""NodePorts: keeps pods off nodes where a host port that they want is taken (framework.md §10.3)."""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(explanations=((r"node\(s\) didn't have free ports.*", "a host port that the pod wants is taken on these nodes"),))
