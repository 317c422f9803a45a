"""VolumeBinding: nodes that the pod's volumes can reach, and the binding of claims that wait for their pod (framework.md §10.9).

In reading order: `topology`, from which nodes a volume can be used; `claims` of a pod by binding mode; `inventory` of volumes and capacity,
with assumed bindings; `state` that all profiles share; `filtering`; `scoring`; `binding`, what PreBind writes and waits for; `plugin`.
"""
