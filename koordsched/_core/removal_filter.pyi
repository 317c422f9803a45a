class RemovalFilter:
    """What a filter says of a row while pods are removed from it and put back; asked by `DryRun`, in compiled code alone.

    Equal ones answer the same.
    """
