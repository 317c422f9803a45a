from koordsched._core.scratch import Scratch
from koordsched._core.verdicts import Verdicts

class Ranking:
    """What each feasible row scores and which are best: the scorers' part of an `Evaluation`, which makes it and passes its answers on."""

    def __init__(self, scratch: Scratch, verdicts: Verdicts) -> None: ...
