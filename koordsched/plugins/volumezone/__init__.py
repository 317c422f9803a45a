"""VolumeZone: volumes stay in their zone (framework.md §10.8)."""
