from collections.abc import Mapping, Sequence

from koordsched._core.numa_facts import HintAnswer

class NumaHintSource:
    """What one provider has to say of NUMA nodes for pods of one shape, as kernels ask it. The base class knows nothing: any would do."""

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that it may have hints for, as texts show them."""

class HintTable(NumaHintSource):
    """A source whose answers are given; rows that are not named have none. For providers without kernels of their own, and for tests."""

    def __init__(self, names: Sequence[str], answers: Mapping[int, HintAnswer]) -> None:
        """ValueError: too many names or hints, or a resource that is named without hints (which takes a code)."""
