"""PodTopologySpread: keeps pods evenly spread over domains of nodes (framework.md §10.10).

In reading order: `constraints` of a pod; `defaults` for pods that have none; `eligible_domains`, where constraints count pods; `filtering`
by the hard ones, `scoring` by the soft ones; `queueing_hints`; `plugin`.
"""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(
    explanations=(
        (r"node\(s\) didn't match pod topology spread constraints.*", "there the pod would break its topology spread constraints"),
    )
)
