"""PodTopologySpread: keeps pods that belong together evenly spread over domains of nodes (framework.md §10.10)."""
