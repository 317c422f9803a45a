"""Nothing in here is for Python; see device_joint.pxd."""
