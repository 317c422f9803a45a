"""NodeAffinity: places pods by node labels: nodeSelector, node affinity, and what the configuration adds (framework.md §10.2)."""
