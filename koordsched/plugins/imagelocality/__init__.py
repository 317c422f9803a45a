"""ImageLocality: prefers nodes that have the pod's images already (framework.md §10.6)."""
