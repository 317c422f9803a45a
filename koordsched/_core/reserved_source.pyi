class ReservedSource:
    """What one plugin has to say of reservations for a pod, as kernels ask it. The base class allocates nothing."""
