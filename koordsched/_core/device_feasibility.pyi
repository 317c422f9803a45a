"""Nothing in here is for Python; see device_feasibility.pxd."""
