"""InterPodAffinity: keeps pods together or apart by the labels of the pods that are there (framework.md §10.11).

`terms` reads what pods say, `namespaces` knows what namespace selectors select, `existing` holds the terms of the pods that are counted.
`interests` signs pods and keeps an `interest` a signature: the counters that such pods look at. `filtering` and `scoring` make reasons and
scores of them, `hints` says which events may help, `plugin` puts them together.
"""

from koordsched.framework.tooling import Tooling

TOOLING = Tooling(
    explanations=(
        (r"node\(s\) didn't match pod affinity rules", "no pod that this one wants to be near runs there"),
        (r"node\(s\) didn't match pod anti-affinity rules", "a pod that this one wants to be away from runs there"),
        (r"node\(s\) didn't satisfy existing pods anti-affinity rules", "a pod there wants to be away from this one"),
    )
)
