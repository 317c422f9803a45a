"""Nothing in here is for Python; see device_selection.pxd."""
