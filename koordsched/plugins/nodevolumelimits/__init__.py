"""NodeVolumeLimits: no more volumes on a node than its CSI drivers can attach (framework.md §10.8)."""
