import numpy as np
from numpy.typing import NDArray

from koordsched._core.hint_source import NumaHintSource
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_joint import KeptAffinities

def score_numa(
    table: NumaTable,
    request: NumaRequest,
    scoring: NumaScoring,
    rows: NDArray[np.int32],
    source: NumaHintSource | None = None,
    kept: KeptAffinities | None = None,
) -> NDArray[np.int64]:
    """Return a score 0..100 per row that `filter_numa` lets pass (nodenumaresource.md §10); 0 where nothing can be scored.

    Rows with a NUMA policy are scored by the zones that `NumaView.affinity` would choose, or that were chosen together with the source's
    hints, others by the node. Without the GIL; O(rows x sets of zones as small as will do).
    """
