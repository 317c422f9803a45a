"""NodeAffinity: places pods by node labels: nodeSelector, node affinity, and what the configuration adds (framework.md §10.2)."""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(
    explanations=((r"node\(s\) didn't match Pod's node affinity/selector", "the pod's node selector or affinity excludes these nodes"),)
)
