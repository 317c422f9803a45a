"""Which shapes are kept: those that are used again, as many as fit into the budget, and the last few that were used once.

A burst of pods that all differ must neither push out the shapes of the deployments around it nor write each shape to memory that was last
touched a hundred shapes ago. So a new shape first goes to a small waiting room, whose columns stay in the processor's cache and go round
from shape to shape. It moves among the kept ones when it is used again, also if it had to leave not long ago, and when its pod found no
node: a pod that waits is asked about again. Of the kept ones the least recently used go first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from koordsched._core.evaluation import Evaluation
    from koordsched.framework.shape import Shape, ShapeKey

__all__ = ["DEFAULT_BUDGET", "KeptShapes"]

DEFAULT_BUDGET = 128 << 20  # bytes of a profile's shapes: 195 of them with 5,000 nodes, in truth about half of it

KEPT_LARGE = 4  # shapes of pods that name thousands of things: some megabytes each, gone with the last of their pods

USED_ONCE = 4
"""Shapes that wait for their second use. With more of them fewer have to be evaluated twice before they are kept, but their columns, 0.3 MB
each with 5,000 nodes, would not stay in the cache (bench_cycle.py, "pods that all differ")."""

REMEMBERED = 256  # keys of shapes that left after one use: where deployments take turns, each one's second pod comes after all first ones

OBJECTS_OF_A_SHAPE = 18 << 10
"""Bytes of a shape's Python objects, which do not grow with nodes: what PreFilter and PreScore prepared, the diagnosis, the views of the
columns. A flat estimate, measured with 40 nodes and the default plugins; counting it exactly would cost more than it is worth."""


class KeptShapes:
    """The kept shapes of one profile, by key, and the columns of those that had to go."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._once: OrderedDict[ShapeKey, Shape] = OrderedDict()
        self._left: OrderedDict[ShapeKey, None] = OrderedDict()
        self._again: OrderedDict[ShapeKey, Shape] = OrderedDict()
        self._large: WeakKeyDictionary[ShapeKey, Shape] = WeakKeyDictionary()
        self._spare: list[Evaluation] = []  # used again: allocating anew costs page faults

    def __len__(self) -> int:
        return len(self._once) + len(self._again) + len(self._large)

    def clear(self) -> None:
        """Let all shapes go. Their columns are not used again: a caller may be about to use one of them."""
        self._once.clear()
        self._left.clear()
        self._again.clear()
        self._large.clear()

    def peek(self, key: ShapeKey) -> Shape | None:
        """Return the shape, if it is kept, without counting it as a use."""
        return self._large.get(key) if key.is_large else self._again.get(key) or self._once.get(key)

    def use(self, key: ShapeKey) -> Shape | None:
        """Return the shape, if it is kept."""
        if key.is_large:
            return self._large.get(key)
        shape = self._again.get(key)
        if shape is not None:
            self._again.move_to_end(key)
            return shape
        shape = self._once.pop(key, None)
        if shape is not None:
            self._keep(key, shape)
        return shape

    def spare(self) -> Evaluation | None:
        """Return columns of a shape that had to go, if there are any."""
        return self._spare.pop() if self._spare else None

    def put_back(self, evaluation: Evaluation) -> None:
        """Take columns of a shape that was not kept."""
        if not self._spare:
            self._spare.append(evaluation)

    def make_room(self) -> None:
        """Let a shape go if another one could not be added."""
        while len(self._once) >= USED_ONCE:
            key, shape = self._once.popitem(last=False)
            if shape.diagnosis is not None:
                self._keep(key, shape)
                continue
            self._spare.append(shape.evaluation)
            self._left[key] = None
            if len(self._left) > REMEMBERED:
                self._left.popitem(last=False)

    def add(self, key: ShapeKey, shape: Shape) -> None:
        """Keep a shape that is used now."""
        if key.is_large:
            while len(self._large) >= KEPT_LARGE:
                self._large.popitem()
            self._large[key] = shape
            return
        if key in self._left:
            del self._left[key]
            self._keep(key, shape)
        else:
            self._once[key] = shape

    def _keep(self, key: ShapeKey, shape: Shape) -> None:
        self._again[key] = shape
        most = max(1, self._budget // (shape.evaluation.nbytes() + OBJECTS_OF_A_SHAPE) - USED_ONCE)
        while len(self._again) > most:
            self._spare.append(self._again.popitem(last=False)[1].evaluation)
