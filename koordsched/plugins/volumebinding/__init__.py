"""VolumeBinding: nodes that the pod's volumes can reach, and the binding of claims that wait for their pod (framework.md §10.9)."""
