"""Nothing in here is for Python; see cpu_availability.pxd."""
