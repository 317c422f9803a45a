class Scratch:
    """Row lists of the round that is going on; one for all evaluations of a table, since rounds never overlap."""

    def __init__(self) -> None: ...
