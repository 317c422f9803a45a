class RemovalFilter:
    """What a filter says of a row while pods are removed from it and put back; asked by `DryRun`, in compiled code alone.

    Equal ones answer the same.
    """

    @property
    def needs(self) -> tuple[RemovalFilter, ...]:
        """The kernels of other filters whose columns this one reads: only a dry run that has them, too, may ask it."""
