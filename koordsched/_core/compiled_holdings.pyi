class CompiledHoldings:
    """What the pods of an index hold, compiled row by row: the base of `DeviceHoldings` and `NumaHoldings`.

    Each change of what is held, or of what there is to hold, has to be logged in the node table.
    """
