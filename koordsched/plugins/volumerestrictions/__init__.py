"""VolumeRestrictions: disks and claims that only one pod may use (framework.md §10.7)."""
