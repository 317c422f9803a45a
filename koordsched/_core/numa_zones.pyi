# Nothing here is visible from Python; see numa_zones.pxd.
