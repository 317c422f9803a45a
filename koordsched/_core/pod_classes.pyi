from collections.abc import Collection, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Requirement = tuple[Hashable, Collection[str] | None, bool]
"""Key of a fact, the values that are meant (None: any), and whether the pods without such a fact are wanted, instead of those with it."""

NAMESPACE: Hashable
TERMINATING: Hashable
"""The keys of facts that are no labels. That a pod is terminating has one value."""

class PodClass:
    """Pods with equal namespace and labels, all of them terminating or none."""

    pods: int
    """How many there are on all rows. A class without any ends when hundreds of others have lost their pods, too."""
    seen: int
    matching: tuple[Any, ...]
    """For the caller, 0 and () at first: which of its queries were asked about the class, and those that match."""

class PodClasses:
    """The pods of each row, by class. Rows may be any numbers from 0 on: memory goes with the largest, and with pods and classes."""

    def __len__(self) -> int:
        """Return how many classes have pods."""

    def largest_numbers(self) -> tuple[int, int]:
        """Return how many facts, and how many classes, were ever kept at once: memory goes with these."""

    def add(self, row: int, namespace: str, labels: dict[str, str], terminating: bool) -> PodClass:
        """Add a pod to a row. O(its labels)."""

    def remove(self, row: int, namespace: str, labels: dict[str, str], terminating: bool) -> PodClass:
        """Remove one such pod; LookupError when the row has none. O(its labels, and pods of the row)."""

    def find(self, namespace: str, labels: dict[str, str], terminating: bool) -> PodClass | None:
        """Return the class of such pods; None when there are none, nor were a moment ago."""

    def of_class(self, row: int, known: PodClass) -> int:
        """Return how many pods of the class are on the row."""

    def on_row(self, row: int) -> list[tuple[str, dict[str, str], bool]]:
        """Return namespace, labels, and whether it is terminating, of each pod of a row. Slow: O(all facts)."""

    def count(self, requirements: list[Requirement], rows: int) -> NDArray[np.int32]:
        """Return how many pods of each of the first `rows` rows meet all requirements. O(facts of all classes, and pods)."""
