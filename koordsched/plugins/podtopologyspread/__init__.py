"""PodTopologySpread: keeps pods that belong together evenly spread over domains of nodes (framework.md §10.10)."""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(
    explanations=(
        (r"node\(s\) didn't match pod topology spread constraints.*", "there the pod would break its topology spread constraints"),
    )
)
