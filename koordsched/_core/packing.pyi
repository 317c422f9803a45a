from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

class PackingSearch:
    """A search in depth, node by node, for how many members of each kind go to which nodes.

    Of each node the combinations are tried that leave no room for one more member, those first that use most of it. What is known to fail
    (from a node on, with so many members left) is not tried again.
    """

    def __init__(
        self,
        free: NDArray[np.int64],
        slots: NDArray[np.int64],
        units: NDArray[np.int64],
        counted: NDArray[np.uint8],
        kinds: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]],
        needs: NDArray[np.int64],
        forbidden: Mapping[int, NDArray[np.int64]],
        most_work: int,
        most_combinations: int,
    ) -> None:
        """free: [node, resource]. slots: [node, class], how many the node takes at most. units: [class, resource], what a member takes;
        counted: [class], 0 where only slots say how many a node takes. kinds: of each its class, its gang, and how many members it has.
        needs: [gang], how many members of its kinds have to be placed, whichever. forbidden: by node, [n, class]: so many members of each
        class it does not take together. most_work: of the whole search, as of `work`; most_combinations: of one node, the first ones count.

        ValueError and IndexError where these do not go together.
        """

    @property
    def work(self) -> int:
        """About how many amounts and slots were looked at; the time that it took is in proportion."""

    def run(self) -> list[tuple[int, tuple[int, ...]]] | None:
        """Return how many members of each kind go to which nodes, in the order of nodes; None: no packing was found. Once."""
