"""InterPodAffinity: keeps pods together or apart by the labels of the pods that are there (framework.md §10.11).

In reading order: `terms` of a pod; `existing_terms`, those of the pods that are there; `topology_counts`, pods by topology domain, and what
they refuse and score; `compiled_affinity`, the counts that pods of one signature look at; `queueing_hints`; `plugin`.
"""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(
    explanations=(
        (r"node\(s\) didn't match pod affinity rules", "no pod that this one wants to be near runs there"),
        (r"node\(s\) didn't match pod anti-affinity rules", "a pod that this one wants to be away from runs there"),
        (r"node\(s\) didn't satisfy existing pods anti-affinity rules", "a pod there wants to be away from this one"),
    )
)
