"""Nothing in here is for Python; see device_group.pxd."""
