"""What `/apis/v1/plugins/LoadAwareScheduling/node/<node>` answers: a node's pods, and what they are estimated to use (frameworkext.md §9).

A node of which nothing is known is `{}`, and one without a NodeMetric has only `pods`. Amounts are those under the arguments of the first
profile that has the plugin, for its whole vector of resources.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from koordsched.api.quantity import NANO_PER_MILLI, NANO_PER_UNIT, QuantityFormat, quantity_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched._core.load import PodLoad
    from koordsched.cache.cache import Cache
    from koordsched.plugins.loadaware.node_loads import Measurement, NodeLoads
    from koordsched.plugins.loadaware.state import LoadState

_KIBI = 1024


def describe(state: LoadState, loads: NodeLoads, name: str, cache: Cache) -> dict[str, Any]:
    """Answer for a node."""
    entry = state.entries.get(name)
    if entry is None:
        return {}
    place = state.loads.index(loads)
    counted = sorted(((pods[place], uid) for uid, pods in entry.pods.items()), key=lambda each: (each[0].timestamp, each[0].key))
    body: dict[str, Any] = {}
    shown = [{"timestamp": _time(load.timestamp), "pod": cache.pods[uid].info.pod} for load, uid in counted if uid in cache.pods]
    if shown:
        body["pods"] = shown
    if entry.measurement is not None:
        body |= _estimates(entry.measurement, loads, [load for load, _ in counted])
    return body


def _estimates(measurement: Measurement, loads: NodeLoads, pods: Sequence[PodLoad]) -> dict[str, Any]:
    """Return the sums, and which pods are in them."""
    sums = loads.sums(measurement, pods)
    body: dict[str, Any] = {
        "prodUsage": _quantities(loads.vector, sums.prod_usage),
        "nodeDelta": _quantities(loads.vector, sums.delta),
        "prodDelta": _quantities(loads.vector, sums.prod_delta),
        "nodeEstimated": _quantities(loads.vector, sums.estimated),
    }
    for key, one in (("nodeDeltaPods", "delta"), ("prodDeltaPods", "prod_delta"), ("nodeEstimatedPods", "estimated")):
        names = sorted(pod.key for pod in pods if any(getattr(loads.sums(measurement, [pod]), one)))
        if names:
            body[key] = names
    return body


def _quantities(vector: Sequence[str], amounts: Sequence[int]) -> dict[str, str]:
    return {name: _quantity(name, amount) for name, amount in zip(vector, amounts, strict=True)}


def _quantity(name: str, amount: int) -> str:
    if name == "cpu":
        return quantity_text(amount * NANO_PER_MILLI, QuantityFormat.DECIMAL_SI)
    written = QuantityFormat.BINARY_SI if name == "memory" and amount % _KIBI == 0 else QuantityFormat.DECIMAL_SI
    return quantity_text(amount * NANO_PER_UNIT, written)


def _time(seconds: float) -> str:
    """Write a time as Go does: without a fraction where there is none."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat()
    return f"{text.removesuffix('+00:00').rstrip('0') if '.' in text else text.removesuffix('+00:00')}Z"
