from koordsched._core.scratch import Scratch

class Verdicts:
    """Which filter refused each row and why: the filters' part of an `Evaluation`, which makes it and passes its answers on."""

    def __init__(self, scratch: Scratch) -> None: ...
